//! What Python passes: keys and values of a question, traces by their name, and results that are
//! dictionaries.

use crate::error::{UsageError, cannot, raised};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict};
use serde::Serialize;
use slabyard_ask::question::Question;

/// A question of keyword arguments.
pub fn question(keys: Option<&Bound<'_, PyDict>>) -> PyResult<Question> {
    let mut question = Question::default();
    for (key, value) in keys.into_iter().flat_map(|keys| keys.iter()) {
        question.set(&key.extract::<String>()?, &typed(&value)?).map_err(raised)?;
    }
    Ok(question)
}

/// A value as people type it.
fn typed(value: &Bound<'_, PyAny>) -> PyResult<String> {
    match value.cast::<PyBool>() {
        Ok(flag) => Ok(u8::from(flag.is_true()).to_string()),
        Err(_) => Ok(value.str()?.to_string()),
    }
}

/// Text, or an error that says what is taken.
pub fn texts(values: &[Bound<'_, PyAny>], what: &str) -> PyResult<Vec<String>> {
    let text = |value: &Bound<'_, PyAny>| {
        value.extract::<String>().map_err(|_| UsageError::new_err(what.to_owned()))
    };
    values.iter().map(text).collect()
}

/// What the command prints as JSON, as Python's own values.
pub fn values<'py>(py: Python<'py>, value: &impl Serialize) -> PyResult<Bound<'py, PyAny>> {
    let text = serde_json::to_string(value).map_err(cannot)?;
    py.import("json")?.call_method1("loads", (text,))
}
