//! Recognizes process managers that started this process as one of several and that DECK cannot join.
//!
//! Only the environment is looked at, and only variables that the manager sets for each process it starts: variables of
//! a whole allocation (such as `SLURM_JOB_ID` in a batch script) say nothing about *this* process.

use std::ffi::OsString;

/// A manager that started this process together with others.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Manager {
    /// Its usual name.
    pub name: &'static str,
    /// How many processes it started together, where it says so.
    pub processes: Option<u64>,
}

/// The manager that started this process as one of several, if there is one. A manager that started a single process is
/// none: that process is alone, and may say so.
pub(crate) fn detect(lookup: &dyn Fn(&str) -> Option<OsString>) -> Option<Manager> {
    let present = |name: &str| lookup(name).is_some();
    let number = |name: &str| lookup(name)?.to_str()?.trim().parse::<u64>().ok();

    // A step may be smaller than its allocation, and SLURM_NTASKS may speak of either.
    let slurm = || number("SLURM_STEP_NUM_TASKS").or_else(|| number("SLURM_NTASKS"));
    // SLURM_STEP_ID tells a task that srun started from a batch script, which runs once whatever SLURM_NTASKS says.
    let in_slurm_step = present("SLURM_PROCID") && present("SLURM_STEP_ID");
    let under_pmix = present("PMIX_RANK") && present("PMIX_NAMESPACE");

    let manager = if let Some(processes) = number("OMPI_COMM_WORLD_SIZE") {
        Manager { name: "Open MPI", processes: Some(processes) }
    } else if in_slurm_step && slurm().is_some() {
        Manager { name: "Slurm", processes: slurm() }
    } else if present("PMI_RANK") && number("PMI_SIZE").is_some() {
        Manager { name: "PMI", processes: number("PMI_SIZE") }
    } else if under_pmix {
        // PMIx keeps the size on its server: without joining it, nobody knows that this process is the only one.
        Manager { name: "PMIx", processes: None }
    } else {
        return None;
    };
    (manager.processes != Some(1)).then_some(manager)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn detected(environment: &[(&str, &str)]) -> Option<(&'static str, Option<u64>)> {
        let lookup = |name: &str| environment.iter().find(|(key, _)| *key == name).map(|(_, value)| value.into());
        detect(&lookup).map(|manager| (manager.name, manager.processes))
    }

    #[test]
    fn a_plain_shell_is_no_manager() {
        assert_eq!(detected(&[("PATH", "/bin"), ("HOME", "/root")]), None);
    }

    #[test]
    fn one_of_several_tasks_of_a_slurm_step_is_recognized() {
        let task = [("SLURM_PROCID", "1"), ("SLURM_STEP_ID", "0"), ("SLURM_NTASKS", "4")];
        assert_eq!(detected(&task), Some(("Slurm", Some(4))));
    }

    #[test]
    fn the_batch_script_of_a_large_allocation_is_alone() {
        assert_eq!(detected(&[("SLURM_PROCID", "0"), ("SLURM_NTASKS", "64"), ("SLURM_JOB_ID", "7")]), None);
    }

    #[test]
    fn the_size_of_the_step_counts_not_that_of_the_allocation() {
        let step =
            [("SLURM_PROCID", "0"), ("SLURM_STEP_ID", "2"), ("SLURM_NTASKS", "64"), ("SLURM_STEP_NUM_TASKS", "1")];
        assert_eq!(detected(&step), None);
    }

    #[test]
    fn pmi_pmix_and_open_mpi_are_recognized() {
        assert_eq!(detected(&[("PMI_RANK", "0"), ("PMI_SIZE", "2")]), Some(("PMI", Some(2))));
        assert_eq!(detected(&[("PMIX_RANK", "0"), ("PMIX_NAMESPACE", "job.1")]), Some(("PMIx", None)));
        assert_eq!(detected(&[("OMPI_COMM_WORLD_SIZE", "3")]), Some(("Open MPI", Some(3))));
    }

    #[test]
    fn a_manager_that_started_one_process_leaves_it_alone() {
        assert_eq!(detected(&[("PMI_RANK", "0"), ("PMI_SIZE", "1")]), None);
        assert_eq!(detected(&[("OMPI_COMM_WORLD_SIZE", "1"), ("PMIX_RANK", "0"), ("PMIX_NAMESPACE", "a")]), None);
    }

    #[test]
    fn half_a_manager_is_none() {
        assert_eq!(detected(&[("PMIX_RANK", "0")]), None);
        assert_eq!(detected(&[("PMI_SIZE", "4")]), None);
        assert_eq!(detected(&[("SLURM_NTASKS", "4"), ("SLURM_STEP_ID", "0")]), None);
    }
}
