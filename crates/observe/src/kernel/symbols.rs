//! Names of the kernel's functions, from `/proc/kallsyms`.

use std::fs;
use std::ops::Range;

/// Functions in the order of their addresses.
#[derive(Debug, Default)]
pub struct Symbols {
    /// Address, and where its name is in the text.
    functions: Vec<(u64, u32, u32)>,
    text: String,
}

impl Symbols {
    /// Those of the running kernel; none where it hides them.
    pub fn of_kernel() -> Symbols {
        Symbols::parse(fs::read_to_string("/proc/kallsyms").unwrap_or_default())
    }

    /// Those of a text in the form of that file.
    pub fn parse(text: String) -> Symbols {
        let mut functions = Vec::new();
        let base = text.as_ptr() as usize;
        for line in text.lines() {
            let mut words = line.split([' ', '\t']);
            let (Some(address), Some(kind), Some(name)) =
                (words.next(), words.next(), words.next())
            else {
                continue;
            };
            let Ok(address) = u64::from_str_radix(address, 16) else { continue };
            if address != 0 && matches!(kind, "t" | "T" | "w" | "W") {
                functions.push((
                    address,
                    (name.as_ptr() as usize - base) as u32,
                    name.len() as u32,
                ));
            }
        }
        functions.sort_by_key(|function| function.0);
        Symbols { functions, text }
    }

    /// The function that an address is in; the address itself where that is not known.
    pub fn name(&self, address: u64) -> String {
        let after = self.functions.partition_point(|function| function.0 <= address);
        match after.checked_sub(1).map(|at| self.functions[at]) {
            Some(function) => self.name_of(function).to_owned(),
            None => format!("{address:#x}"),
        }
    }

    /// The addresses of a function, up to the next one.
    pub fn range(&self, name: &str) -> Option<Range<u64>> {
        let at = self.functions.iter().position(|function| self.name_of(*function) == name)?;
        let start = self.functions[at].0;
        let end =
            self.functions[at..].iter().map(|function| function.0).find(|end| *end > start)?;
        Some(start..end)
    }

    fn name_of(&self, (_, at, length): (u64, u32, u32)) -> &str {
        &self.text[at as usize..(at + length) as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_in_the_function_before_it() {
        let text = "ffff10 T second\nffff00 t first\nffff18 d data\n0 T hidden\n";
        let symbols = Symbols::parse(text.into());
        assert_eq!(symbols.name(0xffff0c), "first");
        assert_eq!(symbols.name(0xffff10), "second");
        assert_eq!(symbols.name(0xffff1c), "second");
        assert_eq!(symbols.name(0x12), "0x12");
        assert_eq!(symbols.range("first"), Some(0xffff00..0xffff10));
        assert_eq!((symbols.range("second"), symbols.range("hidden")), (None, None));
        assert_eq!(Symbols::parse(String::new()).name(0xffff), "0xffff");
    }
}
