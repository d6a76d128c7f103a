//! A graph of names, and the search for circles in it.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, VecDeque};

/// Who names whom, and where.
#[derive(Default)]
pub struct Graph {
    names: Vec<String>,
    numbers: HashMap<String, usize>,
    /// Of each name those that it names, in the order in which that was seen.
    next: Vec<Vec<usize>>,
    places: HashMap<(usize, usize), String>,
}

impl Graph {
    /// `from` names `to` at `place`; the first place is kept.
    pub fn edge(&mut self, from: String, to: String, place: &str) {
        let (from, to) = (self.node(from), self.node(to));
        if let Entry::Vacant(entry) = self.places.entry((from, to)) {
            entry.insert(place.to_owned());
            self.next[from].push(to);
        }
    }

    fn node(&mut self, name: String) -> usize {
        let number = *self.numbers.entry(name).or_insert_with_key(|name| {
            self.names.push(name.clone());
            self.names.len() - 1
        });
        self.next.resize_with(self.names.len(), Vec::new);
        number
    }

    /// Circles such that each name that is on any is on one of them, as
    /// `a (place) > b (place) > a`.
    pub fn circles(&self) -> Vec<String> {
        let mut seen = vec![false; self.names.len()];
        let mut circles = Vec::new();
        for start in 0..self.names.len() {
            if seen[start] {
                continue;
            }
            let Some(circle) = self.shortest(start) else { continue };
            let mut text = String::new();
            for (i, &at) in circle.iter().enumerate() {
                seen[at] = true;
                let to = circle[(i + 1) % circle.len()];
                text += &format!("{} ({}) > ", self.names[at], self.places[&(at, to)]);
            }
            circles.push(text + &self.names[start]);
        }
        circles
    }

    /// The shortest way from a name back to itself.
    fn shortest(&self, start: usize) -> Option<Vec<usize>> {
        let mut before: Vec<Option<usize>> = vec![None; self.names.len()];
        let mut queue = VecDeque::from([start]);
        while let Some(at) = queue.pop_front() {
            for &to in &self.next[at] {
                if to == start {
                    let mut way = vec![at];
                    while let Some(&first) = way.last()
                        && first != start
                    {
                        way.extend(before[first]);
                    }
                    way.reverse();
                    return Some(way);
                }
                if before[to].is_none() {
                    before[to] = Some(at);
                    queue.push_back(to);
                }
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_name_on_a_circle_is_on_one_that_is_found() {
        let mut graph = Graph::default();
        for (from, to) in
            [("a", "b"), ("b", "c"), ("c", "a"), ("b", "a"), ("c", "d"), ("d", "e"), ("e", "e2")]
        {
            graph.edge(from.to_owned(), to.to_owned(), "x:1");
        }
        assert_eq!(graph.circles(), ["a (x:1) > b (x:1) > a", "c (x:1) > a (x:1) > b (x:1) > c"]);
    }
}
