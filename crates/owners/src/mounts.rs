//! Where file systems are mounted, by the numbers of their devices.

use std::collections::HashMap;
use std::fs;

/// The first mount point of each device whose root is the file system's.
#[derive(Debug, Default)]
pub(crate) struct Mounts {
    points: HashMap<(u32, u32), String>,
}

impl Mounts {
    pub(crate) fn of_kernel() -> Mounts {
        Mounts::parse(&fs::read_to_string("/proc/self/mountinfo").unwrap_or_default())
    }

    fn parse(text: &str) -> Mounts {
        let mut points = HashMap::new();
        for line in text.lines() {
            let mut words = line.split(' ').skip(2);
            let (Some(device), Some(root), Some(point)) =
                (words.next(), words.next(), words.next())
            else {
                continue;
            };
            let Some((major, minor)) = device.split_once(':') else { continue };
            if let (Ok(major), Ok(minor), "/") = (major.parse(), minor.parse(), root) {
                points.entry((major, minor)).or_insert_with(|| point.replace("\\040", " "));
            }
        }
        Mounts { points }
    }

    /// The mount point; none of what is mounted nowhere that we see.
    pub(crate) fn point(&self, device: (u32, u32)) -> Option<&str> {
        self.points.get(&device).map(String::as_str)
    }

    /// A directory by names below the file system's root.
    pub(crate) fn path(&self, device: (u32, u32), file_system: &str, names: &[String]) -> String {
        let below = names.join("/");
        match self.point(device) {
            Some("/") => format!("/{below}"),
            Some(point) if below.is_empty() => point.to_owned(),
            Some(point) => format!("{point}/{below}"),
            None => format!("{file_system}:/{below}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_is_below_its_mount_point() {
        let text = "21 1 254:0 / / rw - ext4 /dev/root rw\n22 21 0:19 / /run/a\\040b rw - tmpfs t rw\n\
                    23 21 254:0 /home /srv rw - ext4 /dev/root rw\n";
        let mounts = Mounts::parse(text);
        let names = ["var".to_owned(), "tmp".to_owned()];
        assert_eq!(mounts.path((254, 0), "ext4", &names), "/var/tmp");
        assert_eq!(mounts.path((0, 19), "tmpfs", &names), "/run/a b/var/tmp");
        assert_eq!(mounts.path((0, 19), "tmpfs", &[]), "/run/a b");
        assert_eq!(mounts.path((0, 7), "pipefs", &[]), "pipefs:/");
    }
}
