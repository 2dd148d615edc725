use tokio::time::Instant;

/// Prints what happens, when, and to whom.
#[derive(Debug, Clone, Copy)]
pub struct Story {
    begun: Instant,
}

impl Story {
    /// A story that starts now.
    #[must_use]
    #[expect(
        clippy::new_without_default,
        reason = "a story begins at the moment at which it is made"
    )]
    pub fn new() -> Self {
        let begun = Instant::now();
        Self { begun }
    }

    /// Prints the headline of what follows.
    pub fn chapter(self, title: &str) {
        println!("\n{title}");
    }

    /// Prints one line: when, who, what.
    pub fn tell(self, who: &str, what: impl AsRef<str>) {
        let seconds = self.begun.elapsed().as_secs_f64();
        println!("  {seconds:>7.3} s  {who:<9} {}", what.as_ref());
    }
}
