//! What a report says of the machine on which it was measured.

use serde::Deserialize;

#[derive(Deserialize, PartialEq)]
pub struct Machine {
    pub cpu: String,
    pub cpus: Vec<u32>,
    pub kernel: String,
    pub compiler: String,
    pub settings: Vec<String>,
}
