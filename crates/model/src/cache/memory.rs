//! Which nodes of a machine have memory, and which objects the sheaves of a CPU take.
//!
//! A node without memory has CPUs; their slabs are of another node. To 7.0 it has no barn, so that
//! its CPUs bypass sheaves; from 7.1 on it has one, and its CPUs' sheaves take objects of any node.
//! Neighbour: [`super::calls`] asks it before each call.

/// Nodes, and whose memory they use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeMemory {
    /// Of each node: itself, or another one if it has no memory.
    memory_of: Vec<u16>,
    /// Nodes without memory have barns.
    pub(super) memoryless_barns: bool,
}

impl NodeMemory {
    /// A machine whose nodes use their own.
    pub(super) fn new(nodes: usize) -> Self {
        NodeMemory { memory_of: (0..nodes as u16).collect(), memoryless_barns: false }
    }

    /// Says whose memory each node uses, for itself its own. SLUB alone has nodes without memory
    /// here. Call it before the first slab.
    pub fn use_memory_of(&mut self, memory_of: &[u16]) {
        self.memory_of.iter_mut().zip(memory_of).for_each(|(own, other)| *own = *other);
    }

    /// The node of a slab that is allocated for a node.
    #[inline]
    pub(super) fn of(&self, node: u16) -> u16 {
        self.memory_of[node as usize]
    }

    /// True if a node has a barn, without which its CPUs bypass their sheaves.
    #[inline]
    pub(super) fn has_barn(&self, node: u16) -> bool {
        self.memoryless_barns || self.of(node) == node
    }

    /// True if the sheaves of a node's CPUs take objects of another node's slab, or of their own.
    #[inline]
    pub(super) fn takes(&self, node: u16, slab_node: u16) -> bool {
        node == slab_node || self.memoryless_barns && self.of(node) != node
    }
}
