//! Where in JSON the values of a series are: a JSON pointer (RFC 6901) in which `*` stands for each
//! element of an array, in its order.
//!
//! `/series/*/time_ns` finds the time of each point of a series, `/caches/0/name` one name. What
//! some elements lack is unknown in these, as if it were `null`. A key that comes from elsewhere
//! goes through [`key`], which escapes `~`, `/`, and also `*`, as `~2`.
//! `assets/page.js` has the same rule.

use serde_json::Value;

/// A key, such as the name of a cache, as a path has it.
#[must_use]
pub fn key(name: &str) -> String {
    name.replace('~', "~0").replace('/', "~1").replace('*', "~2")
}

/// The values at a path; `None` if `*` meets no array, or no element has what the path names.
#[must_use]
pub fn find<'a>(data: &'a Value, path: &str) -> Option<Vec<&'a Value>> {
    if !path.is_empty() && !path.starts_with('/') {
        return None;
    }
    let mut found = vec![Some(data)];
    for part in path.split('/').skip(1) {
        found = match part {
            "*" => {
                let arrays: Option<Vec<_>> = found.into_iter().map(|v| v?.as_array()).collect();
                arrays?.into_iter().flatten().map(Some).collect()
            }
            _ => {
                let name = part.replace("~2", "*").replace("~1", "/").replace("~0", "~");
                found.into_iter().map(|value| one(value?, &name)).collect()
            }
        };
    }
    let none = !found.is_empty() && found.iter().all(Option::is_none);
    (!none).then(|| found.into_iter().map(|value| value.unwrap_or(&Value::Null)).collect())
}

fn one<'a>(value: &'a Value, name: &str) -> Option<&'a Value> {
    match value {
        Value::Object(object) => object.get(name),
        Value::Array(array) => array.get(name.parse::<usize>().ok()?),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_path_finds_each_element_or_nothing() {
        let data =
            json!({"a": [{"b": 1}, {"b": null, "d": 5}], "none": [], "a/*~": {"b": [[2, 3], [4]]}});
        let found = |path: &str| find(&data, path).map(|found| json!(found));
        assert_eq!(found("/a/*/b"), Some(json!([1, null])));
        assert_eq!(found("/a/1/b"), Some(json!([null])));
        assert_eq!(found("/a/*/d"), Some(json!([null, 5])), "one of them lacks it");
        assert_eq!(found("/none/*/d"), Some(json!([])));
        assert_eq!(found(&format!("/{}/b/*/*", key("a/*~"))), Some(json!([2, 3, 4])));
        assert_eq!(found("").map(|all| all[0].clone()), Some(data.clone()));
        for missing in ["/a/*/c", "/a/2/b", "/b", "/a/0/*", "a", "/a/x"] {
            assert_eq!(found(missing), None, "{missing}");
        }
    }
}
