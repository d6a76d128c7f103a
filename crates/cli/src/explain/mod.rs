//! `slabyard explain`: what a message means and what to do, and what a number, a setting or a
//! finding is.
//!
//! Neighbours: [`messages`] is the table of messages, with whose codes `main` ends what it prints;
//! `numbers` asks the tables of counters, settings and rules.

pub mod messages;
mod numbers;
#[cfg(test)]
mod tests;

use crate::failure::Failure;
use crate::stdout;
use messages::{GROUPS, MESSAGES, Message};
use std::fmt::Write;
use std::process::ExitCode;

const EXAMPLES: &str = "\
Examples:
  slabyard explain E0101                        the code that a message ends with
  slabyard explain 'free(0x7f12c0a01240): double free of an object of cache malloc-64'
  slabyard explain parked_cpu                   a number of `slabyard list`, of a report, of JSON
  slabyard explain decay_ms                     a key of --set
  slabyard explain burst.free                   a finding of `slabyard doctor`
  slabyard explain                              all codes

A line of a library has no code: give it as it is.";

/// `slabyard explain`.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct ExplainArgs {
    /// A code, a line that was printed, or a name
    #[arg(value_name = "WHAT", allow_hyphen_values = true)]
    what: Vec<String>,
}

/// Prints what is known of it.
pub fn run(args: &ExplainArgs) -> Result<ExitCode, Failure> {
    let what = args.what.join(" ");
    let text =
        if what.is_empty() { all() } else { explained(&what).ok_or_else(|| unknown(&what))? };
    stdout::print(text.as_bytes())
}

/// What ends a failure's message: how to read more, if there is more.
pub fn hint(message: &str) -> String {
    messages::of_text(message)
        .map(|found| format!(" [slabyard explain {}]", found.code))
        .unwrap_or_default()
}

fn explained(what: &str) -> Option<String> {
    if let Some(message) = messages::of_code(what) {
        return Some(paragraph(message));
    }
    let of_name = numbers::of_name(what.trim());
    if !of_name.is_empty() {
        return Some(of_name.join("\n\n") + "\n");
    }
    messages::of_text(what).map(paragraph)
}

fn unknown(what: &str) -> Failure {
    Failure::Usage(format!(
        "nothing is known of `{what}`: give a code such as {}, a printed line, or the name of a \
         number, a setting or a finding; without any `slabyard explain` lists the codes",
        MESSAGES[0].code
    ))
}

fn paragraph(message: &Message) -> String {
    let place = message.code.to_lowercase();
    format!(
        "{}: {}\n\n{}\n\nIn docs/messages.md#{place} with the others.\n",
        message.code,
        message.title,
        message.sentences()
    )
}

fn all() -> String {
    let mut text = String::new();
    for (digit, group) in GROUPS {
        let _ = writeln!(text, "{}{group}", if text.is_empty() { "" } else { "\n" });
        for message in MESSAGES.iter().filter(|message| message.group() == digit) {
            let _ = writeln!(text, "  {}  {}", message.code, message.title);
        }
    }
    text
}
