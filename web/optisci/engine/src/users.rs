//! Who has to do with what: the accesses of each segment, the accesses and messages of each process.

use optisci::Model;

/// Numbers of entries, grouped by what they belong to.
#[derive(Clone, Debug, Default)]
pub struct Groups {
    starts: Vec<u32>,
    entries: Vec<u32>,
}

impl Groups {
    /// Groups the entries `0..` by the group that each one names.
    fn new(groups: usize, members: impl Iterator<Item = u32> + Clone) -> Groups {
        let mut starts = vec![0u32; groups + 1];
        members.clone().for_each(|group| starts[group as usize + 1] += 1);
        for group in 0..groups {
            starts[group + 1] += starts[group];
        }
        let mut next = starts.clone();
        let mut entries = vec![0; starts[groups] as usize];
        for (entry, group) in members.enumerate() {
            let place = &mut next[group as usize];
            entries[*place as usize] = entry as u32;
            *place += 1;
        }
        Groups { starts, entries }
    }

    /// The entries of a group, ascending.
    pub fn of(&self, group: usize) -> impl Iterator<Item = usize> + '_ {
        let range = self.starts[group] as usize..self.starts[group + 1] as usize;
        self.entries[range].iter().map(|&entry| entry as usize)
    }
}

/// Who has to do with what in a model.
#[derive(Clone, Debug, Default)]
pub struct Users {
    /// Accesses by their segment.
    pub of_segment: Groups,
    /// Accesses by their process.
    pub of_process: Groups,
    /// Messages by their sender.
    pub sent: Groups,
    /// Messages by their receiver.
    pub received: Groups,
}

impl Users {
    /// Reads them off the model.
    pub fn new(model: &Model) -> Users {
        let (processes, segments) = (model.processes.len(), model.segments.len());
        Users {
            of_segment: Groups::new(segments, model.accesses.iter().map(|access| access.segment)),
            of_process: Groups::new(processes, model.accesses.iter().map(|access| access.process)),
            sent: Groups::new(processes, model.messages.iter().map(|message| message.from)),
            received: Groups::new(processes, model.messages.iter().map(|message| message.to)),
        }
    }
}
