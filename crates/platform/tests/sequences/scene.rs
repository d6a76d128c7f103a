//! One case: stacks with known objects, a breakpoint, what its handler does.
//!
//! An object is in a stack, in `held`, or on its way inside of the one call that is interrupted;
//! the handler touches the first two only. A fault that the handler cannot assert is stored in the
//! scene, for `verify`.

use crate::{LINUX, SLOT, arch};
use slabyard_platform::stack::{ELEMENT_BYTES, Tag};
use slabyard_platform::{Memory, PerCpu, Stack, Takes, rseq, stop};
use slabyard_testkit::bind_to;
use std::cell::{Cell, RefCell};
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicUsize, Ordering};

/// Objects in a stack at most.
pub const CAPACITY: u32 = 6;
/// Words of an array: a guard, the objects, a tag.
const STRIDE: usize = CAPACITY as usize + 1 + Tag::ELEMENTS as usize;
/// Objects are of two slabs, which this bit of their address tells apart. A stack's tag is that
/// of one of them.
const SLAB: usize = 1 << 40;
/// Arrays of a scene.
const ARRAYS: usize = 6;

/// What the handler does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Nothing: the signal alone.
    Nothing,
    /// Calls on the same stack.
    Push,
    Pop,
    PopAll,
    Exchange,
    /// A pop and a push: the count is the same as before.
    Replace,
    /// Sends the next push to the slow path.
    Ask,
    /// Stops all rows, takes everything, starts them.
    Drain,
    /// Stops all rows, takes their top objects, starts them.
    DrainTop,
    /// Stops all rows, which stay stopped until the call has returned.
    Stop,
    /// Moves to another CPU and back, with a pop there.
    SlowPath,
    /// Moves to another CPU for good.
    Move,
}

pub const ACTIONS: [Action; 12] = [
    Action::Nothing,
    Action::Push,
    Action::Pop,
    Action::PopAll,
    Action::Exchange,
    Action::Replace,
    Action::Ask,
    Action::Drain,
    Action::DrainTop,
    Action::Stop,
    Action::SlowPath,
    Action::Move,
];

/// The scene that a breakpoint belongs to.
static CURRENT: AtomicPtr<Scene> = AtomicPtr::new(ptr::null_mut());

/// Cells throughout: the handler changes what the interrupted code looks at. No
/// cell stays borrowed while a sequence runs.
pub struct Scene {
    action: Action,
    /// Stacks have objects of their tag alone.
    is_tagged: bool,
    /// Objects in no stack.
    held: RefCell<Vec<usize>>,
    nr_objects: Cell<usize>,
    /// Numbers of arrays that no stack has.
    spares: RefCell<Vec<usize>>,
    /// The CPU of the case, and another one if this process has it.
    cpu: usize,
    other: Option<usize>,
    /// Rows left stopped, with their tops.
    stopped: RefCell<Vec<(usize, u32)>>,
    /// The breakpoint and what it replaced.
    address: Cell<usize>,
    replaced: Cell<u32>,
    /// Where the handler found the thread interrupted, once for each time.
    stops: RefCell<Vec<usize>>,
}

impl Scene {
    /// Stacks of `count` objects on two CPUs, and as many in the hand; `None` if
    /// the action needs a second CPU and there is none.
    pub fn new(action: Action, count: u32, is_tagged: bool) -> Option<Scene> {
        let cpus = allowed_cpus();
        let other = cpus.get(1).copied();
        if other.is_none() && matches!(action, Action::SlowPath | Action::Move) {
            return None;
        }
        let scene = Scene {
            action,
            is_tagged,
            held: RefCell::default(),
            nr_objects: Cell::new(0),
            spares: RefCell::new((0..ARRAYS).collect()),
            cpu: cpus[0],
            other,
            stopped: RefCell::default(),
            address: Cell::new(0),
            replaced: Cell::new(0),
            stops: RefCell::default(),
        };
        let cpus = || scene.other.into_iter().chain([scene.cpu]);
        for cpu in cpus() {
            go_to(cpu);
            // That of a case that went wrong, or none.
            let _old = exchanged(Stack::NONE);
        }
        // Such a case may have written beyond its array.
        for number in guard_of(0)..guard_of(ARRAYS) {
            place(number).store(0, Ordering::Relaxed);
        }
        for cpu in cpus() {
            go_to(cpu);
            let _none = exchanged(scene.new_stack(count));
        }
        // The last one, which is taken first, is of the stacks' slab.
        for n in 0..CAPACITY + 3 {
            let slab = if n % 2 == 0 { 0 } else { SLAB };
            let object = scene.new_object() | slab;
            scene.held.borrow_mut().push(object);
        }
        Some(scene)
    }

    /// Takes an object from the hand.
    fn take(&self) -> Option<usize> {
        self.held.borrow_mut().pop()
    }

    fn spare(&self) -> Option<usize> {
        self.spares.borrow_mut().pop()
    }

    fn new_object(&self) -> usize {
        self.nr_objects.set(self.nr_objects.get() + 1);
        self.nr_objects.get() * 4096
    }

    fn new_stack(&self, count: u32) -> Stack {
        let array = self.spare().expect("an array");
        self.set_tag(array, 0);
        for i in 0..count as usize {
            let object = self.new_object();
            place(guard_of(array) + 1 + i as u32).store(object, Ordering::Relaxed);
        }
        stack(array, count)
    }

    /// Gives an array the tag of an object's slab, or, where stacks take all objects, zeros.
    fn set_tag(&self, array: usize, object: usize) {
        let end = guard_of(array) + CAPACITY;
        let mask = if self.is_tagged { SLAB } else { 0 };
        for (nth, word) in [object & mask, mask].into_iter().enumerate() {
            place(end + 1 + nth as u32).store(word, Ordering::Relaxed);
        }
    }

    /// Plants the breakpoint, makes the call, and returns where it was interrupted.
    pub fn play(&self, address: usize, call: fn(&Scene)) -> Vec<usize> {
        self.address.set(address);
        CURRENT.store(ptr::from_ref(self).cast_mut(), Ordering::SeqCst);
        // SAFETY: the text was made writable; what was there is put back by the
        // handler, or below where the call did not reach it.
        unsafe {
            self.replaced.set(arch::plant(address));
            call(self);
            arch::take_out(address, self.replaced.get());
        }
        CURRENT.store(ptr::null_mut(), Ordering::SeqCst);
        for (row, top) in self.stopped.take() {
            LINUX.rows().entry(row, SLOT).start(top);
        }
        self.stops.take()
    }

    /// Each object is in a hand or in a stack, once.
    pub fn verify(&self) -> Result<(), String> {
        let mut all: Vec<_> = self.held.take().iter().map(|object| object & !SLAB).collect();
        for cpu in self.other.into_iter().chain([self.cpu]) {
            go_to(cpu);
            let old = exchanged(Stack::NONE);
            let objects = contents(old.top);
            let tag = Tag::of(old.end, |number| place(number).load(Ordering::Relaxed));
            let is_strange = |object: &&usize| (**object ^ tag.base) & tag.mask != 0;
            if self.is_tagged
                && old.end != 0
                && let Some(object) = objects.iter().find(is_strange)
            {
                return Err(format!("of another slab: {object:x} in a stack of {tag:x?}"));
            }
            all.extend(objects.iter().map(|object| object & !SLAB));
        }
        all.sort_unstable();
        if !all.iter().copied().eq((1..=self.nr_objects.get()).map(|i| i * 4096)) {
            return Err(format!("lost or doubled: {all:x?} of {} objects", self.nr_objects.get()));
        }
        Ok(())
    }

    /// What the handler does, between two instructions of the call.
    fn interfere(&self) {
        match self.action {
            Action::Nothing => {}
            Action::Push => self.push(),
            Action::Pop => pop(self),
            Action::PopAll => (0..CAPACITY).for_each(|_| pop(self)),
            Action::Exchange => exchange(self),
            Action::Replace => {
                pop(self);
                self.held.borrow_mut().rotate_right(1);
                self.push();
            }
            Action::Ask => LINUX.rows().entry(self.cpu, SLOT).ask(),
            Action::Drain => self.stop(|_| 0),
            Action::DrainTop => self.stop(|count| count.saturating_sub(1)),
            Action::Stop => self.stop(|count| count),
            Action::SlowPath => {
                go_to(self.other.unwrap_or(self.cpu));
                pop(self);
                go_to(self.cpu);
            }
            Action::Move => go_to(self.other.unwrap_or(self.cpu)),
        }
    }

    fn push(&self) {
        if self.is_tagged { push_if(self) } else { push(self) }
    }

    /// Stops this slot in all rows and leaves `keep` of the objects in each.
    fn stop(&self, keep: fn(u32) -> u32) {
        let mut stops: Vec<_> = (0..LINUX.rows().len()).map(|row| (row, SLOT, 0)).collect();
        assert!(stop(&LINUX, &mut stops, &|_, _, _| ()));
        for (row, _, top) in stops {
            let places = contents(top);
            let kept = keep(places.len() as u32);
            self.held.borrow_mut().extend(&places[kept as usize..]);
            if self.action == Action::Stop {
                self.stopped.borrow_mut().push((row, top));
            } else {
                LINUX.rows().entry(row, SLOT).start(top - (places.len() as u32 - kept));
            }
        }
    }
}

/// A thread takes objects off a CPU's stack and puts them back, while another one, on another CPU,
/// stops the stack so many times: false if a sequence changed it after a fence.
pub fn stays_stopped(times: u32) -> bool {
    let [cpu, other, ..] = allowed_cpus()[..] else {
        return true;
    };
    let scene = Scene::new(Action::Nothing, CAPACITY, false).expect("two CPUs");
    let done = AtomicBool::new(false);
    let is_done = || done.load(Ordering::Relaxed);
    let stays = std::thread::scope(|threads| {
        threads.spawn(|| {
            LINUX.enter();
            go_to(cpu);
            while !is_done() {
                let Some(object) = LINUX.pop(SLOT) else { continue };
                while !LINUX.push(SLOT, object, Takes::Each) && !is_done() {}
            }
        });
        go_to(other);
        let entry = LINUX.rows().entry(cpu, SLOT);
        let stays = (0..times).all(|_| {
            let mut stops = [(cpu, SLOT, 0)];
            assert!(stop(&LINUX, &mut stops, &|_, _, _| ()));
            let stays = (0..100).all(|_| entry.is_stopped());
            entry.start(stops[0].2);
            stays
        });
        done.store(true, Ordering::Relaxed);
        stays
    });
    drop(scene);
    stays
}

/// Number of an array's first element: all scenes use the same arrays, which begin
/// where the platform keeps elements.
fn guard_of(array: usize) -> u32 {
    LINUX.rows().element_number(LINUX.rows().elements().0) + (array * STRIDE) as u32
}

/// Commits the memory of all arrays.
pub fn commit_arrays() {
    let bytes = (ARRAYS * STRIDE * ELEMENT_BYTES).next_multiple_of(LINUX.page_bytes());
    assert!(LINUX.commit(LINUX.rows().elements().0, bytes));
}

fn place(number: u32) -> &'static AtomicUsize {
    let address = LINUX.rows().base() + number as usize * ELEMENT_BYTES;
    // SAFETY: callers pass elements of `commit_arrays`, which stay.
    unsafe { &*(address as *const AtomicUsize) }
}

fn stack(array: usize, count: u32) -> Stack {
    Stack { top: guard_of(array) + count, end: guard_of(array) + CAPACITY }
}

/// Objects of the stack with this top, the lowest first.
fn contents(top: u32) -> Vec<usize> {
    if top == 0 {
        return Vec::new();
    }
    let count = (top - guard_of(0)) % STRIDE as u32;
    (top - count + 1..=top).map(|number| place(number).load(Ordering::Relaxed)).collect()
}

/// A pop by the platform.
pub fn pop(scene: &Scene) {
    let object = LINUX.pop(SLOT);
    scene.held.borrow_mut().extend(object);
}

/// A push by the platform.
pub fn push(scene: &Scene) {
    let Some(object) = scene.take() else {
        return;
    };
    if !LINUX.push(SLOT, object, Takes::Each) {
        scene.held.borrow_mut().push(object);
    }
}

/// A push by the platform, if the object is of the stack's slab. The next object in the hand is
/// of the other slab.
pub fn push_if(scene: &Scene) {
    let Some(object) = scene.take() else {
        return;
    };
    if !LINUX.push(SLOT, object, Takes::Tagged) {
        scene.held.borrow_mut().push(object);
    }
}

/// A pop of five objects by the platform: one, and then four at once.
pub fn pop_many(scene: &Scene) {
    let mut objects = [0; 5];
    let popped = LINUX.pop_many(SLOT, &mut objects);
    scene.held.borrow_mut().extend(&objects[..popped]);
}

/// A push of five objects by the platform, of which the stack takes an odd or even number.
pub fn push_many(scene: &Scene) {
    push_many_by::<5>(scene, |objects| LINUX.push_many(SLOT, objects, Takes::Each));
}

/// As [`push_many`], where stacks may have a tag.
pub fn push_many_if(scene: &Scene) {
    push_many_by::<5>(scene, |objects| LINUX.push_many(SLOT, objects, Takes::Tagged));
}

/// A push of so many objects, or of none if there are less in the hand.
fn push_many_by<const N: usize>(scene: &Scene, push: impl Fn(&[usize]) -> usize) {
    if scene.held.borrow().len() < N {
        return;
    }
    let objects: [_; N] = std::array::from_fn(|_| scene.take().expect("an object"));
    let pushed = push(&objects);
    scene.held.borrow_mut().extend(&objects[pushed..]);
}

/// A pop of two objects by another sequence.
pub fn pop_many_with(
    scene: &Scene,
    sequence: unsafe extern "C" fn(usize, usize, usize, *mut usize, usize) -> usize,
) {
    let mut objects = [0; 2];
    let (rows, cs_offset) = (LINUX.rows().base(), LINUX.cs_offset());
    // SAFETY: the arguments are those of the platform's own sequences.
    let popped =
        unsafe { sequence(SLOT.offset(), rows, cs_offset, objects.as_mut_ptr(), objects.len()) };
    scene.held.borrow_mut().extend(&objects[..popped]);
}

/// A push of two objects by another sequence.
pub fn push_many_with(
    scene: &Scene,
    sequence: unsafe extern "C" fn(*const usize, usize, usize, usize, usize) -> usize,
) {
    let (rows, cs_offset) = (LINUX.rows().base(), LINUX.cs_offset());
    push_many_by::<2>(scene, |objects| {
        // SAFETY: as above.
        unsafe { sequence(objects.as_ptr(), rows, cs_offset, SLOT.offset(), objects.len()) }
    });
}

/// Exchanges this CPU's stack, which is not stopped: a preemption in the midst says that it is.
fn exchanged(new: Stack) -> Stack {
    const TRIES: usize = 100;
    (0..TRIES).find_map(|_| LINUX.exchange(SLOT, new).ok()).expect("a row")
}

/// An exchange by the platform, for a stack with one object, and one that finds no stack.
pub fn exchange(scene: &Scene) {
    exchange_once(scene);
    let old = LINUX.exchange(SLOT, Stack::NONE).unwrap_or(Stack::NONE);
    scene.held.borrow_mut().extend(contents(old.top));
    exchange_once(scene);
}

fn exchange_once(scene: &Scene) {
    let (Some(object), Some(array)) = (scene.take(), scene.spares.borrow_mut().pop()) else {
        return;
    };
    place(guard_of(array) + 1).store(object, Ordering::Relaxed);
    scene.set_tag(array, object);
    let new = stack(array, 1);
    let old = LINUX.exchange(SLOT, new).unwrap_or(new);
    scene.held.borrow_mut().extend(contents(old.top));
}

/// A pop by another sequence.
pub fn pop_by(scene: &Scene, sequence: unsafe extern "C" fn(usize, usize, usize) -> usize) {
    // SAFETY: the arguments are those of the platform's own sequences.
    let object = unsafe { sequence(SLOT.offset(), LINUX.rows().base(), LINUX.cs_offset()) };
    scene.held.borrow_mut().extend(Some(object).filter(|object| *object != 0));
}

/// A push by another sequence.
pub fn push_by(scene: &Scene, sequence: unsafe extern "C" fn(usize, usize, usize, usize) -> usize) {
    let Some(object) = scene.take() else {
        return;
    };
    let rows = LINUX.rows().base();
    // SAFETY: the arguments are those of the platform's own sequences.
    if unsafe { sequence(object, rows, LINUX.cs_offset(), SLOT.offset()) } == 0 {
        scene.held.borrow_mut().push(object);
    }
}

/// Sends breakpoints to the scene that planted them.
pub fn catch_breakpoints() {
    // SAFETY: the handler has the signature that SA_SIGINFO asks for.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = on_breakpoint as *const () as usize;
        action.sa_flags = libc::SA_SIGINFO;
        assert_eq!(libc::sigaction(libc::SIGTRAP, &raw const action, ptr::null_mut()), 0);
    }
}

/// Allocating here is allowed: what it interrupts is a sequence of ours, never
/// the C library.
extern "C" fn on_breakpoint(_: i32, _: *mut libc::siginfo_t, context: *mut libc::c_void) {
    // SAFETY: the kernel passes its context; the scene waits for us in `play`,
    // and puts back what it took.
    unsafe {
        let scene = &*CURRENT.load(Ordering::SeqCst);
        arch::take_out(scene.address.get(), scene.replaced.get());
        let counter = arch::program_counter(&mut *context.cast::<libc::ucontext_t>());
        scene.stops.borrow_mut().push(*counter);
        // The kernel aborted the sequence, or the thread goes on where the
        // breakpoint was.
        if *counter == scene.address.get() + arch::BREAKPOINT {
            *counter = scene.address.get();
        }
        scene.interfere();
    }
}

fn allowed_cpus() -> Vec<usize> {
    static ALLOWED: std::sync::OnceLock<Vec<usize>> = std::sync::OnceLock::new();
    let allowed = ALLOWED.get_or_init(|| {
        // SAFETY: a zeroed set is an empty one, which the call fills.
        unsafe {
            let mut set: libc::cpu_set_t = std::mem::zeroed();
            assert_eq!(libc::sched_getaffinity(0, size_of_val(&set), &raw mut set), 0);
            (0..LINUX.rows().len()).filter(|cpu| libc::CPU_ISSET(*cpu, &set)).collect()
        }
    });
    allowed.clone()
}

/// Moves this thread to a CPU; it is there when the call returns.
pub fn go_to(cpu: usize) {
    let moved = bind_to(cpu).is_ok();
    assert!(moved && rseq::cpu_id(LINUX.cs_offset().wrapping_sub(8)) == cpu as i32);
}
