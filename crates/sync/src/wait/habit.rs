//! What a thread has learnt from how its waits ended: which way of looking is worth it ([`crate::wait::patience`]).

/// From this doubt on a thread does not look that way.
pub const CONVINCED: u32 = 3;
pub const DOUBT_MAX: u32 = 5;
/// So many short looks in a row find an answer by chance only seldom: whoever they wait for runs and looks, too.
pub const SERIES: u32 = 6;

/// Whether one way of looking is worth it, as the last waits of a thread were.
#[derive(Clone, Copy)]
pub struct Doubt {
    doubt: u32,
    /// When a thread looked that way last.
    looked_ns: u64,
}

impl Doubt {
    pub const NONE: Doubt = Doubt { doubt: 0, looked_ns: 0 };

    pub fn is_to_look(&mut self, now_ns: u64, try_again: u64) -> bool {
        let is_to_look = self.doubt < CONVINCED || now_ns.saturating_sub(self.looked_ns) >= try_again;
        if is_to_look {
            self.looked_ns = now_ns;
        }
        is_to_look
    }

    pub fn was_in_vain(&mut self, grows_by: u32) {
        self.doubt = (self.doubt + grows_by).min(DOUBT_MAX);
    }

    pub fn was_right(&mut self) {
        self.doubt = self.doubt.saturating_sub(1);
    }

    /// There is a reason to look that way next time.
    pub fn wavers(&mut self) {
        self.doubt = self.doubt.min(CONVINCED - 1);
    }
}

/// The ways of looking.
#[derive(Clone, Copy)]
pub enum Looking {
    /// Before the core is given away for the first time.
    Long,
    /// Instead of that, where it is in doubt.
    Short,
    /// Each time it is back.
    Again,
}

#[derive(Clone, Copy)]
pub struct Habit {
    pub long: Doubt,
    pub short: Doubt,
    pub again: Doubt,
    /// Short looks in a row that found an answer.
    short_answers: u32,
    pub turn_began: u64,
}

impl Habit {
    pub const NEW: Habit =
        Habit { long: Doubt::NONE, short: Doubt::NONE, again: Doubt::NONE, short_answers: 0, turn_began: 0 };

    /// A long look in vain costs about as much as two that were not save, so it has to be right two times in three. A
    /// short one costs less, and one that comes after a switch may save more than one.
    pub fn was_in_vain(&mut self, looking: Looking) {
        match looking {
            Looking::Long => self.long.was_in_vain(2),
            Looking::Short => {
                self.short.was_in_vain(1);
                self.short_answers = 0;
            }
            Looking::Again => self.again.was_in_vain(1),
        }
    }

    pub fn was_right(&mut self, looking: Looking) {
        match looking {
            Looking::Long => {
                self.long.was_right();
                self.short = Doubt::NONE;
            }
            Looking::Short => {
                self.short.wavers();
                self.short.was_right();
                self.short_answers = (self.short_answers + 1).min(SERIES);
                if self.short_answers == SERIES {
                    self.long.wavers();
                }
            }
            Looking::Again => self.again.was_right(),
        }
    }
}
