//! What a misuse program must lead to, and whether it did.
//!
//! [`Expectation`] is parsed from the first lines of a program; [`judge`] compares it with an
//! [`Outcome`]. Neighbour: `misuse.rs`, which also plants wrong outcomes that [`judge`] must
//! reject.

use super::Outcome;

/// When misuse is noticed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum When {
    /// Aborted within the call that is misuse.
    AtOnce,
    /// Aborted later, when objects are flushed to their slabs.
    AtFlush,
    /// Aborted when the process ends.
    AtExit,
    /// Stopped by the kernel within the misuse, without a message.
    Faults,
    /// Not noticed.
    NotCaught,
    /// Reported on stderr; the program continues.
    Warned,
    /// No misuse: nothing is said.
    Fine,
}

impl When {
    /// The same of an engine that puts each freed object into its slab at once.
    pub fn where_nothing_is_parked(self) -> When {
        match self {
            When::AtFlush | When::AtExit => When::AtOnce,
            other => other,
        }
    }
}

/// The first lines of a program.
#[derive(Debug)]
pub struct Expectation {
    /// When the misuse is noticed.
    pub when: When,
    /// The word for its cause.
    pub cause: String,
    /// What the program does.
    pub deed: String,
    /// A variable that is set for it.
    pub variable: Option<(String, String)>,
}

impl Expectation {
    /// Parses the head of a program's source.
    pub fn parse(text: &str) -> Result<Expectation, String> {
        let mut comments =
            text.lines().map_while(|line| line.strip_prefix("/* ")?.strip_suffix(" */"));
        let first = comments.next().and_then(|c| c.strip_prefix("expect: "));
        let (when, cause) =
            first.and_then(|c| c.split_once(' ')).ok_or("no `expect: WHEN CAUSE`")?;
        let when = match when {
            "at-once" => When::AtOnce,
            "at-flush" => When::AtFlush,
            "at-exit" => When::AtExit,
            "faults" => When::Faults,
            "not-caught" => When::NotCaught,
            "warned" => When::Warned,
            "fine" => When::Fine,
            other => return Err(format!("`{other}` is no WHEN")),
        };
        let deed = comments.next().ok_or("the second line does not state the misuse")?.to_owned();
        let variable = match comments.next() {
            None => None,
            Some(c) => {
                let pair = c.strip_prefix("env: ").and_then(|c| c.split_once('='));
                let (name, value) = pair.ok_or("the third line is no `env: NAME=VALUE`")?;
                Some((name.to_owned(), value.to_owned()))
            }
        };
        let it = Expectation { when, cause: cause.to_owned(), deed, variable };
        if it.must_be_said() {
            it.words()?;
        }
        Ok(it)
    }

    /// True if the library has to write a message.
    pub fn must_be_said(&self) -> bool {
        !matches!(self.when, When::Faults | When::NotCaught | When::Fine)
    }

    /// What the message contains.
    pub fn words(&self) -> Result<&str, String> {
        Ok(match (self.cause.as_str(), &self.variable) {
            ("double-free", _) => "double free",
            ("invalid-pointer", _) => "invalid pointer",
            ("misaligned", _) => "misaligned pointer",
            ("interior", _) => "interior pointer",
            ("wrong-size", _) => "wrong size",
            ("use-after-free", _) => "use after free",
            ("option", Some((name, _))) => name,
            (other, _) => return Err(format!("`{other}` is no CAUSE")),
        })
    }
}

/// `FUNCTION(0xPTR): CAUSE TEXT`, behind `slabyard: `.
fn is_report(message: &str, words: &str) -> bool {
    let Some((function, rest)) = message.split_once("(0x") else {
        return false;
    };
    let Some((address, text)) = rest.split_once("): ") else {
        return false;
    };
    !function.is_empty()
        && !address.is_empty()
        && address.bytes().all(|b| b.is_ascii_hexdigit())
        && text.starts_with(words)
}

/// What is wrong with the outcome, if anything.
pub fn judge(expected: &Expectation, outcome: &Outcome) -> Result<(), String> {
    let went_on = outcome.stdout == "after\n";
    let messages: Vec<&str> = outcome.messages().collect();
    let (ended_well, wanted_to_go_on) = match expected.when {
        When::AtOnce => (outcome.aborted(), false),
        When::AtFlush | When::AtExit => (outcome.aborted(), true),
        When::Faults => (outcome.faulted(), false),
        When::NotCaught | When::Warned | When::Fine => (outcome.succeeded(), true),
    };
    if !ended_well {
        return Err(format!("ended with {:?}", outcome.status));
    }
    if went_on != wanted_to_go_on {
        return Err(if went_on { "went on after the bad call" } else { "stopped too early" }.into());
    }
    if !expected.must_be_said() {
        return if messages.is_empty() { Ok(()) } else { Err("a message without a cause".into()) };
    }
    let words = expected.words()?;
    let [message] = messages[..] else {
        return Err(format!("{} messages, not one", messages.len()));
    };
    let said = if expected.cause == "option" {
        message.contains(words)
    } else {
        is_report(message, words)
    };
    if said { Ok(()) } else { Err(format!("the message does not say `{words}`")) }
}
