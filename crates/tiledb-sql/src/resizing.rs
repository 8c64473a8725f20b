//! The signal that the window has another size (SIGWINCH) goes to the thread that edits the line.
//!
//! The line editor notices it because it interrupts the wait for a key. The system gives a signal to any thread that takes it, so
//! the other threads must not: each thread begins with the signals of the one that started it.

/// Blocks the signal in this thread and in the threads that it starts.
pub fn ignore() {
    #[cfg(unix)]
    // If that fails, a line is drawn for the old window until the next key.
    let _ = signals().thread_block();
}

/// Runs a function that receives the signal.
pub fn noticed<T>(edit: impl FnOnce() -> T) -> T {
    #[cfg(unix)]
    let _ = signals().thread_unblock();
    let edited = edit();
    ignore();
    edited
}

#[cfg(unix)]
fn signals() -> nix::sys::signal::SigSet {
    nix::sys::signal::SigSet::from_iter([nix::sys::signal::Signal::SIGWINCH])
}
