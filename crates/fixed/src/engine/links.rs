//! A slab's link in its cache's list, stored in its first page's page-table entry.

use crate::pages::{Entry, PageKind};
use slabyard::engine::slabs::Links;

impl Links for Entry {
    fn next(&self) -> u32 {
        self.next.get().into()
    }

    fn set_next(&self, next: u32) {
        self.next.set(next as u16);
    }

    fn prev(&self) -> u32 {
        self.prev.get().into()
    }

    fn set_prev(&self, prev: u32) {
        self.prev.set(prev as u16);
    }

    fn is_listed(&self) -> bool {
        matches!(self.kind(), PageKind::Listed | PageKind::Apart | PageKind::ListedBlocks)
    }

    fn set_listed(&self, is_listed: bool) {
        self.set_kind(match (self.kind(), is_listed) {
            (PageKind::Blocks | PageKind::ListedBlocks, true) => PageKind::ListedBlocks,
            (PageKind::Blocks | PageKind::ListedBlocks, false) => PageKind::Blocks,
            (_, true) => PageKind::Listed,
            (_, false) => PageKind::Slab,
        });
    }

    fn is_apart(&self) -> bool {
        self.kind() == PageKind::Apart
    }

    fn set_apart(&self, is_apart: bool) {
        match (self.kind(), is_apart) {
            (PageKind::Listed, true) => self.set_kind(PageKind::Apart),
            (PageKind::Apart, false) => self.set_kind(PageKind::Listed),
            _ => {}
        }
    }
}
