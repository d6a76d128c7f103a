//! Messages of a kernel's log, without what dmesg(1), journald and syslog put in front.
//!
//! ```text
//! [16.437528] Mem-Info:
//! [Sun Mar  3 04:11:14 2024] Mem-Info:
//! Mar 03 04:11:14 host kernel: [ 16.437528] Mem-Info:
//! <4>[16.437528][ T123] Mem-Info:
//! ```

use super::lines::{self, Line};

/// What a kernel wrote, without the time and host in front.
#[derive(Clone, Copy, Debug)]
pub(super) struct Message<'a> {
    pub number: usize,
    pub text: &'a str,
}

/// Every line as a message: those of no log are unchanged.
pub(super) fn messages<'a>(lines: &[Line<'a>]) -> Vec<Message<'a>> {
    lines.iter().map(|line| Message { number: line.number, text: message(line.text) }).collect()
}

fn message(line: &str) -> &str {
    // How far the name of a host may push it.
    const FAR: usize = 120;
    let mut rest = line;
    if let Some(at) = line.find(" kernel: ").filter(|at| *at < FAR) {
        rest = line.get(at + " kernel: ".len()..).unwrap_or_default();
    }
    if let Some((level, behind)) =
        rest.trim_start().strip_prefix('<').and_then(|r| r.split_once('>'))
        && !level.is_empty()
        && level.bytes().all(|b| b.is_ascii_digit())
    {
        rest = behind;
    }
    while let Some((inside, behind)) =
        rest.trim_start().strip_prefix('[').and_then(|rest| rest.split_once(']'))
        && is_time(inside)
    {
        rest = behind;
    }
    rest.trim_start()
}

/// Seconds, the task or CPU that printed, or a date.
fn is_time(inside: &str) -> bool {
    let inside = inside.trim();
    let (first, rest) = inside.split_at_checked(1).unwrap_or(("", ""));
    let digits =
        |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit() || b == b'.');
    let is_date = || {
        let words: Vec<_> = inside.split_whitespace().collect();
        words.len() == 5 && words.get(3).is_some_and(|clock| clock.split(':').count() == 3)
    };
    digits(inside) && inside.contains('.')
        || (matches!(first, "T" | "C") && digits(rest))
        || is_date()
}

/// The kernel's release in a line such as "CPU: 0 PID: 1 Comm: x Not tainted 6.12.9 #1".
pub(super) fn release(text: &str) -> Option<String> {
    let (_, behind) = text.split_once("ainted")?;
    let words: Vec<&str> = behind.split_whitespace().collect();
    let at = words.iter().position(|word| word.starts_with('#'))?;
    let release = words.get(at.checked_sub(1)?)?;
    let is_one = release.starts_with(|c: char| c.is_ascii_digit()) && release.contains('.');
    is_one.then(|| lines::clean(release))
}

/// A function of a stack: `name+0x5c/0x1b0`, with an address before it in older kernels. A mark
/// before it says that the kernel is not sure of it.
pub(super) fn frame(text: &str) -> Option<(String, Sure)> {
    let mut words = text.split_whitespace().peekable();
    let marks = ["<TASK>", "</TASK>", "<IRQ>", "</IRQ>", "<EOI>"];
    while words.next_if(|word| word.starts_with("[<") || marks.contains(word)).is_some() {}
    let sure = if words.next_if_eq(&"?").is_some() { Sure::No } else { Sure::Yes };
    let function = words.next().filter(|word| word.contains("+0x") && word.contains("/0x"))?;
    let module = words.next().filter(|word| word.starts_with('['));
    let function = [Some(function), module].into_iter().flatten().collect::<Vec<_>>().join(" ");
    Some((lines::clean(&function), sure))
}

/// Whether the kernel is sure that a function is on the stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sure {
    Yes,
    No,
}

/// The line above a stack; arm64 writes a small letter.
pub(super) fn is_trace(text: &str) -> bool {
    matches!(text, "Call Trace:" | "Call trace:")
}

/// The functions below a line, to the first line that is none: those of which the kernel is sure, if
/// it is of any.
pub(super) fn stack(messages: &[Message<'_>]) -> Vec<String> {
    const MOST: usize = 40;
    let mut frames = Vec::new();
    for message in messages {
        let is_mark = is_trace(message.text)
            || matches!(message.text, "<TASK>" | "</TASK>" | "<IRQ>" | "</IRQ>" | "<EOI>");
        match frame(message.text) {
            Some(found) => frames.push(found),
            None if is_mark => {}
            None => break,
        }
    }
    let is_sure = |(_, sure): &(String, Sure)| *sure == Sure::Yes;
    let any = frames.iter().any(is_sure);
    let kept = frames.into_iter().filter(|frame| !any || is_sure(frame));
    kept.map(|(function, _)| function).take(MOST).collect()
}

/// The number behind a key such as `order:` or `pid=` in a line.
pub(super) fn number_behind(text: &str, key: &str) -> Option<u64> {
    let (_, behind) = text.split_once(key)?;
    let end = behind.find(|c: char| !c.is_ascii_digit()).unwrap_or(behind.len());
    behind.get(..end)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefixes_go_whoever_wrote_them() {
        for prefix in [
            "",
            "[   16.437528] ",
            "[   16.437528][  T123] ",
            "<4>[   16.437528] ",
            "[Sun Mar  3 04:11:14 2024] ",
            "Mar 03 04:11:14 host kernel: ",
            "Mar  3 04:11:14 host kernel: [16.437528] ",
            "2024-03-03T04:11:14+0000 host kernel: ",
        ] {
            assert_eq!(message(&format!("{prefix}Mem-Info:")), "Mem-Info:", "{prefix}");
        }
        assert_eq!(message("[  pid  ]   uid"), "[  pid  ]   uid");
        assert_eq!(message("[<ffff>] f+0x1/0x2"), "[<ffff>] f+0x1/0x2");
        assert_eq!(message("[     95]     0    95"), "[     95]     0    95");
    }

    #[test]
    fn frames_of_new_and_old_kernels_are_functions() {
        let of = |text: &str| frame(text).map(|(function, sure)| (function, sure == Sure::Yes));
        assert_eq!(of(" f+0x5c/0x1b0 [m]"), Some(("f+0x5c/0x1b0 [m]".into(), true)));
        assert_eq!(of("[<ffffffff8151a5f1>] ? g+0x5d/0x78"), Some(("g+0x5d/0x78".into(), false)));
        assert_eq!(
            of("<IRQ>  [<ffffffff8151a5f1>] ? g+0x5d/0x78"),
            Some(("g+0x5d/0x78".into(), false))
        );
        assert_eq!(of("RIP: 0033:0x433043"), None);
        let release = |text| super::release(text);
        assert_eq!(
            release("CPU: 1 Comm: x Tainted: G    OE   5.15.0-91-generic #101").unwrap(),
            "5.15.0-91-generic"
        );
        assert_eq!(release("Not tainted #1"), None);
    }
}
