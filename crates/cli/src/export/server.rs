//! Serves the series over HTTP: `/metrics` and nothing else, one request after the other.
//!
//! Invariant: SIGTERM and SIGINT end the server with success, after the current answer.

use crate::failure::Failure;
use crate::stderr::say;
use anyhow::{Context, anyhow};
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use slabyard_observe::view::openmetrics::CONTENT_TYPE;
use std::net::SocketAddr;
use std::sync::Arc;
use tiny_http::{Header, Method, Request, Response, Server};

const PATH: &str = "/metrics";

/// Answers with fresh series until a signal says to end.
pub fn serve(
    address: SocketAddr,
    series: impl Fn() -> Result<Vec<u8>, Failure>,
) -> Result<(), Failure> {
    let server = Server::http(address).map_err(|e| anyhow!("cannot listen at {address}: {e}"))?;
    let server = Arc::new(server);
    let mut signals = Signals::new([SIGTERM, SIGINT]).context("signals")?;
    let (ended, stopped) = (signals.handle(), Arc::clone(&server));
    let waiter = std::thread::spawn(move || {
        if signals.forever().next().is_some() {
            stopped.unblock();
        }
    });
    let address = server.server_addr().to_ip().unwrap_or(address);
    say(&format!("serving http://{address}{PATH}"));
    if !address.ip().is_loopback() {
        say(&format!("warning: whoever reaches {address} can read it, and asks for no password"));
    }
    for request in server.incoming_requests() {
        answer(request, &series);
    }
    ended.close();
    waiter.join().map_err(|_| anyhow!("waiting for signals failed"))?;
    Ok(())
}

/// A reader that goes away before its answer is no concern of ours.
fn answer(request: Request, series: &impl Fn() -> Result<Vec<u8>, Failure>) {
    let path = request.url().split('?').next().unwrap_or_default();
    let (status, kind, text) = match (path, request.method()) {
        (PATH, Method::Get | Method::Head) => match series() {
            Ok(text) => (200, CONTENT_TYPE, text),
            Err(error) => (503, PLAIN, format!("{error}\n").into_bytes()),
        },
        (PATH, _) => (405, PLAIN, b"only GET and HEAD\n".to_vec()),
        _ => (404, PLAIN, format!("only {PATH} is here\n").into_bytes()),
    };
    let response = Response::from_data(text).with_status_code(status);
    let response = match Header::from_bytes("Content-Type", kind) {
        Ok(header) => response.with_header(header),
        Err(()) => response,
    };
    let _ = request.respond(response);
}

const PLAIN: &str = "text/plain; charset=utf-8";
