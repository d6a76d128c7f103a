//! The command as its users meet it: processes, files, signals, a terminal.

mod changing;
mod comparing;
mod cpu_slabs;
mod damaged_traces;
mod debugging;
mod doubtful_replays;
mod ends;
mod exporting;
mod geometry;
mod looking;
mod memory_limit;
mod page_lists;
mod pages;
mod places;
mod replay;
mod replay_files;
mod replay_words;
mod reports;
mod running;
mod saved_replay;
mod signals;
mod stage;
mod streams;
mod terminal;
mod top;
mod traces;
