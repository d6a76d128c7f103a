//! The HTTP endpoint.

use crate::looking::saved;
use crate::stage::{SLABYARD, text};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// The command, serving at a port of its own choice.
struct Serving {
    child: Child,
    stderr: BufReader<std::process::ChildStderr>,
    address: String,
}

impl Serving {
    fn start(source: &Path, listen: &str) -> Serving {
        let mut command = Command::new(SLABYARD);
        command.arg("export").arg(source).args(["--listen", listen]).stderr(Stdio::piped());
        let mut child = command.stdout(Stdio::null()).spawn().unwrap();
        let mut stderr = BufReader::new(child.stderr.take().unwrap());
        let mut line = String::new();
        stderr.read_line(&mut line).unwrap();
        let address = line.trim().strip_prefix("slabyard: serving http://").unwrap_or_default();
        let address = address.strip_suffix("/metrics").expect(&line).to_owned();
        Serving { child, stderr, address }
    }

    /// Status, and the rest of the answer.
    fn ask(&self, request: &str) -> (u16, String) {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        let head = "Host: x\r\nConnection: close\r\n\r\n";
        write!(stream, "{request} HTTP/1.1\r\n{head}").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        (answer.split(' ').nth(1).unwrap().parse().unwrap(), answer)
    }

    /// Ends it by a signal; its exit code and what else it said.
    fn end(mut self, signal: Signal) -> (Option<i32>, String) {
        kill(Pid::from_raw(self.child.id().cast_signed()), signal).unwrap();
        let mut said = String::new();
        self.stderr.read_to_string(&mut said).unwrap();
        (self.child.wait().unwrap().code(), said)
    }
}

#[test]
fn it_serves_fresh_series_and_nothing_else_until_a_signal() {
    for signal in [Signal::SIGTERM, Signal::SIGINT] {
        let (_directory, path) = saved();
        let serving = Serving::start(&path, "0");
        assert!(serving.address.starts_with("127.0.0.1:"), "{}", serving.address);
        let (status, answer) = serving.ask("GET /metrics");
        assert_eq!(status, 200);
        assert!(answer.contains("Content-Type: application/openmetrics-text; version=1.0.0"));
        assert!(answer.contains("slabyard_committed_bytes 1048576\n"), "{answer}");
        assert!(answer.ends_with("# EOF\n"), "{answer}");
        let (status, answer) = serving.ask("HEAD /metrics");
        assert!(status == 200 && !answer.contains("# EOF"), "{answer}");
        assert_eq!(serving.ask("GET /metrics?x=y").0, 200);
        assert_eq!(serving.ask("GET /").0, 404);
        assert_eq!(serving.ask("GET /metrics/x").0, 404);
        assert_eq!(serving.ask("POST /metrics").0, 405);
        // What cannot be read now may be there again at the next time.
        let hidden = path.with_extension("hidden");
        std::fs::rename(&path, &hidden).unwrap();
        let (status, answer) = serving.ask("GET /metrics");
        assert!(status == 503 && answer.contains("cannot read"), "{answer}");
        std::fs::rename(&hidden, &path).unwrap();
        assert_eq!(serving.ask("GET /metrics").0, 200);
        assert_eq!(serving.end(signal), (Some(0), String::new()));
    }
}

#[test]
fn an_address_for_all_has_a_warning() {
    let (_directory, path) = saved();
    let serving = Serving::start(&path, "0.0.0.0:0");
    let (code, said) = serving.end(Signal::SIGTERM);
    assert_eq!(code, Some(0));
    assert!(said.contains("warning: whoever reaches 0.0.0.0:"), "{said}");
}

#[test]
fn an_address_that_is_taken_is_3() {
    let (_directory, path) = saved();
    let serving = Serving::start(&path, "0");
    let mut command = Command::new(SLABYARD);
    command.arg("export").arg(&path).args(["--listen", &serving.address]);
    let output = command.output().unwrap();
    assert_eq!(output.status.code(), Some(3));
    assert!(text(&output.stderr).contains("cannot listen at 127.0.0.1"), "{output:?}");
    serving.end(Signal::SIGTERM);
}
