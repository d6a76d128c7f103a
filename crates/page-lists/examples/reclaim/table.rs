//! Rows of words as a table for people, or as JSON for programs.

/// Headings, and rows of as many words.
pub struct Table {
    /// Of each column.
    pub headings: Vec<&'static str>,
    /// As many words each.
    pub rows: Vec<Vec<String>>,
}

impl Table {
    pub fn new(headings: &[&'static str]) -> Table {
        Table { headings: headings.to_vec(), rows: Vec::new() }
    }

    /// Columns below their headings, the first to the left, the others to the right.
    pub fn text(&self) -> String {
        let width = |nth: usize| {
            let words = self.rows.iter().map(|row| row[nth].chars().count());
            words.chain([self.headings[nth].chars().count()]).max().unwrap_or(0)
        };
        let widths: Vec<usize> = (0..self.headings.len()).map(width).collect();
        let line = |words: &mut dyn Iterator<Item = &str>| {
            let mut line = String::new();
            for (nth, (word, width)) in words.zip(&widths).enumerate() {
                match nth {
                    0 => line += &format!("{word:width$}"),
                    _ => line += &format!("  {word:>width$}"),
                }
            }
            line + "\n"
        };
        let headings = line(&mut self.headings.iter().copied());
        let rows = self.rows.iter().map(|row| line(&mut row.iter().map(String::as_str)));
        headings + &rows.collect::<String>()
    }

    /// An array of objects; what is a number is one there. No word needs an escape.
    pub fn json(&self) -> String {
        let value = |word: &str| match word.parse::<f64>() {
            Ok(_) => word.to_owned(),
            Err(_) if word == "-" => "null".to_owned(),
            Err(_) => format!("{word:?}"),
        };
        let object = |row: &Vec<String>| {
            let pairs = self.headings.iter().zip(row);
            let pairs: Vec<String> =
                pairs.map(|(name, word)| format!("{name:?}: {}", value(word))).collect();
            format!("  {{{}}}", pairs.join(", "))
        };
        let rows: Vec<String> = self.rows.iter().map(object).collect();
        format!("[\n{}\n]\n", rows.join(",\n"))
    }

    /// For the process that asked for these rows.
    pub fn print_rows(rows: &[Vec<String>]) {
        rows.iter().for_each(|row| println!("{}", row.join("\t")));
    }

    /// For people or programs.
    pub fn print(&self, json: bool) {
        print!("{}", if json { self.json() } else { self.text() });
    }
}
