//! The command line.

use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::{ArgAction, Args, Parser, Subcommand, ValueEnum};

use crate::server::Server;
use crate::slots::SlotOptions;

/// Parses a number of permits. Text that is not a number is not quoted, as in [`time`].
fn permits(text: &str) -> Result<u32, String> {
    match text.parse() {
        Ok(0) => Err("it must be at least 1".to_owned()),
        Ok(number) => Ok(number),
        Err(_) => Err(format!("expected a whole number from 1 to {}", u32::MAX)),
    }
}

/// Parses a time such as `30s`. Text with `:` or `@` is not quoted in the error: it may contain a password.
pub(crate) fn time(text: &str) -> Result<Duration, String> {
    humantime::parse_duration(text).map_err(|error| match text.contains([':', '@']) {
        true => "expected a time such as 30s or 10m".to_owned(),
        false => error.to_string(),
    })
}

const EXAMPLES: &str = "\
Examples:
  lockkeeper run --once-per 1d --lock report -- /usr/local/bin/report
  lockkeeper run --fair --wait 10m --lock deploy:web -- ./deploy.sh
  LOCKKEEPER_URL=redis://:secret@cache:6379 lockkeeper ls 'deploy:*'

Exit codes:
  64 wrong usage, 69 server unreachable, 71 operating system error, 75 others hold the lock, 76 lock lost;
  run otherwise exits with the program's code, 126 if it cannot be executed, 127 if it does not exist, 128 + n after signal n";

const RUN_EXAMPLES: &str = "\
Examples:
  # Cron starts it on ten machines and one runs it; the others exit with 0 at once, without output
  lockkeeper run --no-wait -E 0 --lock poll --min-hold 1m -- /usr/local/bin/poll

  # Wait in a queue for up to ten minutes; take 20 s to clean up if the lock is about to be lost
  lockkeeper run --fair --wait 10m --ttl 60s --grace 20s --lock deploy:web -- ./deploy.sh

  # Reports run side by side, but never while the table is being loaded
  lockkeeper run --shared --lock prices -- ./report.sh
  lockkeeper run --exclusive --lock prices -- ./load.sh

  # Lock two accounts at once; the order of the names does not matter
  lockkeeper run --lock account:7 --lock account:9 -- ./transfer.sh 7 9

  # A fleet of batch jobs, at most eight at a time; a heavy job counts as two
  lockkeeper run --semaphore batch --limit 8 -- ./job.sh
  lockkeeper run --semaphore batch --limit 8 --permits 2 -- ./heavy-job.sh

  # A service with a standby: one runs, the other takes over when the first ends or dies
  lockkeeper run --elect api --value 10.0.0.5:8080 -- ./server --port 8080

  # A nightly report that runs once, on the first machine to start it; if that machine dies, another takes over.
  # Catches up with up to three missed nights
  lockkeeper run --once-per 1d --catch-up 3 --lock report -- sh -c 'report --day \"${LOCKKEEPER_SLOT%T*}\"'
  lockkeeper history report

  # Pass on the fencing token, for a resource that refuses older ones
  lockkeeper run --lock ledger -- sh -c 'ledger-append --token \"$LOCKKEEPER_FENCE\"'";

const LIST_EXAMPLES: &str = "\
Examples:
  lockkeeper ls
  lockkeeper ls 'deploy:*'
  lockkeeper ls --json | jq -r 'select(.waiters > 0).name'";

const TOP_KEYS: &str = "\
Keys:
  arrows, j, k, PageUp, PageDown, Home, End   move
  Enter   show the holders and the queue of a name; Esc goes back
  /       filter by a part of a name or of a holder, as you type; Esc clears it
  s       sort by waiters, name, age or time left
  r       ask the holder of a lock to release it, after a confirmation
  ?       help
  q       quit; Esc and Ctrl-C do the same

Examples:
  lockkeeper top
  lockkeeper top 'deploy:*' --interval 5s";

const SERVE_EXAMPLES: &str = "\
Examples:
  lockkeeper serve
  lockkeeper serve --listen 127.0.0.1:0 'deploy:*'

  # From another machine, through a tunnel; then open http://localhost:9090
  ssh -L 9090:127.0.0.1:9090 db1

  # With a token, the page and scripts can revoke locks
  LOCKKEEPER_SERVE_TOKEN=$(openssl rand -hex 16) lockkeeper serve --allow-revoke
  curl -X POST -H \"Authorization: Bearer $LOCKKEEPER_SERVE_TOKEN\" localhost:9090/api/locks/nightly/revoke";

const LIMIT_EXAMPLES: &str = "\
Examples:
  lockkeeper limit batch
  lockkeeper limit batch 12";

const LEADER_EXAMPLES: &str = "\
Examples:
  lockkeeper leader api
  lockkeeper leader api --json | jq -r .value
  lockkeeper leader api --watch --json | while read -r line; do ./reload.sh \"$line\"; done";

const HISTORY_EXAMPLES: &str = "\
Examples:
  lockkeeper history report
  lockkeeper history report --json | jq 'select(.code != 0)'";

const RELEASE_EXAMPLES: &str = "\
Examples:
  lockkeeper inspect nightly
  lockkeeper release nightly --fence 1763703089000000 --force";

/// Run a program under a distributed lock, and see who holds what
#[derive(Debug, Parser)]
#[command(name = "lockkeeper", version, after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// Print JSON instead of text, one object per line; for run, its events on stderr
    #[arg(long, global = true)]
    pub(crate) json: bool,

    #[command(flatten)]
    pub(crate) color: colorchoice_clap::Color,

    #[command(flatten)]
    pub(crate) server: Server,

    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run a program under a lock, and stop it before another can hold the lock
    ///
    /// The program is started without a shell. It gets the terminal, stdin, stdout and stderr of this command, and a process
    /// group of its own. Its environment contains LOCKKEEPER_NAME, LOCKKEEPER_KIND, LOCKKEEPER_OWNER, LOCKKEEPER_FENCE and
    /// LOCKKEEPER_TTL_MS; also LOCKKEEPER_MODE with --shared or --exclusive, LOCKKEEPER_PERMITS with --semaphore, and
    /// LOCKKEEPER_SLOT with --once-per or --slot. With several locks, the names, kinds and fencing tokens are one per line, in
    /// the order of the options, the semaphore last.
    #[command(after_help = RUN_EXAMPLES)]
    Run(Box<Run>),

    /// List the locks that are held
    #[command(after_help = LIST_EXAMPLES)]
    Ls {
        /// Which names: * matches any text, ? one character, [a-c] one of these characters
        #[arg(default_value = "*")]
        pattern: String,
    },

    /// Show who holds a lock, since when and for how long, and who waits
    Inspect {
        /// The lock
        name: String,
    },

    /// Print every change of a lock, until interrupted
    Watch {
        /// The lock
        name: String,

        /// How often to look; anything that begins and ends between two looks is missed
        #[arg(long, value_name = "TIME", default_value = "200ms", value_parser = time)]
        interval: Duration,
    },

    /// Show holders and waiters on a live screen, until q is typed
    ///
    /// Names with the most waiters come first. The command makes at most 1000 requests per second. If that is too few for all
    /// names, they take turns, except those on the screen and the most crowded ones. The screen says how old the oldest answer is.
    #[command(after_help = TOP_KEYS)]
    Top {
        /// Which names: * matches any text, ? one character, [a-c] one of these characters
        #[arg(default_value = "*")]
        pattern: String,

        /// How often to look
        #[arg(long, value_name = "TIME", default_value = "1s", value_parser = time)]
        interval: Duration,
    },

    /// Serve a live web page of holders and waiters, and metrics for Prometheus, until interrupted
    ///
    /// Paths: / is the page, /metrics the metrics, /api/locks and /api/locks/NAME are JSON, /events is the data of the page. While
    /// no page is open and nothing scrapes, it sends the server no requests. By default it listens on this machine only. It changes
    /// nothing without --allow-revoke. Reading needs no password; put a proxy in front if you want one.
    #[command(after_help = SERVE_EXAMPLES)]
    Serve(ServeOptions),

    /// Show who leads an election, and the value that the leader proclaimed
    #[command(after_help = LEADER_EXAMPLES)]
    Leader {
        /// The election
        name: String,

        /// Keep running and print every change, until interrupted
        #[arg(long)]
        watch: bool,
    },

    /// Show how many permits a semaphore has, or change that number while it is in use
    ///
    /// The server stores the limit of the first run for as long as any run holds permits or waits for some. A new limit applies to
    /// all of them. If you raise it, the first waiters start at once. If you lower it, no run loses permits, and the next one
    /// starts when enough runs have ended.
    #[command(after_help = LIMIT_EXAMPLES)]
    Limit {
        /// The semaphore
        name: String,

        /// The new number of permits
        #[arg(value_name = "LIMIT", value_parser = permits)]
        limit: Option<u32>,
    },

    /// Show the outcomes of a job that runs once per slot, the last to end first
    #[command(after_help = HISTORY_EXAMPLES)]
    History {
        /// The job: the --lock name of its runs
        name: String,
    },

    /// Ask the holders of a lock to release it
    ///
    /// Each holder is notified, stops its work and releases the lock. At the latest, the lock is free when the lease ends.
    Revoke {
        /// The lock
        name: String,
    },

    /// Take a lock from a holder that is known to be dead. UNSAFE: a live holder keeps working until it learns of it
    ///
    /// You name the holder by its fencing token or its claim, as inspect shows them; if that holder no longer holds, nothing is
    /// taken. Holders that share the lock, for reading or with permits, lose it together.
    #[command(after_help = RELEASE_EXAMPLES)]
    Release(Release),

    /// Check the server: can it be reached, do locks work, does it keep its data
    Doctor,

    /// Show locks at work, in this process or on the server that --url names
    Demo,

    /// Print the completions for a shell
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },

    /// Print the man page, or write the man pages of all subcommands into a folder
    #[command(hide = true)]
    Manual {
        /// The folder
        folder: Option<PathBuf>,
    },
}

/// Options of `release`.
#[derive(Debug, Args)]
#[command(group(clap::ArgGroup::new("holder").required(true).args(["fence", "claim"])))]
pub(crate) struct Release {
    /// The lock
    pub(crate) name: String,

    /// The fencing token of the holder
    #[arg(long, value_name = "TOKEN")]
    pub(crate) fence: Option<u64>,

    /// The claim of the holder, if it has no single token: another library holds, or several holders with a token each
    #[arg(long, value_name = "CLAIM")]
    pub(crate) claim: Option<String>,

    /// Confirm that the holder is dead
    #[arg(long)]
    pub(crate) force: bool,
}

/// Options of `run`.
#[derive(Debug, Args)]
pub(crate) struct Run {
    /// The lock. Given several times: all of these locks or none; the order of the names does not matter
    #[arg(
        long = "lock",
        value_name = "NAME",
        required_unless_present_any = ["semaphore", "elect"]
    )]
    pub(crate) locks: Vec<String>,

    /// Wait in a queue: first come, first served
    #[arg(long, requires = "locks", conflicts_with_all = ["reenter", "shared", "exclusive"])]
    pub(crate) fair: bool,

    /// Allow a run inside this one to take the same lock again, with the same --lock and --reenter
    #[arg(long, requires = "locks", conflicts_with_all = ["shared", "exclusive"])]
    pub(crate) reenter: bool,

    /// Take the lock for reading, together with other --shared runs, never while an --exclusive run holds or waits in front
    #[arg(short, long, requires = "locks", conflicts_with = "exclusive")]
    pub(crate) shared: bool,

    /// Take the lock for writing, alone. Use it wherever others use --shared: a run with neither option takes another kind of
    /// lock, and one refuses the other
    #[arg(short = 'x', long, requires = "locks")]
    pub(crate) exclusive: bool,

    /// A semaphore: at most as many runs at a time as --limit says, first come, first served. With --lock: both or neither
    #[arg(long, value_name = "NAME", requires = "limit")]
    pub(crate) semaphore: Option<String>,

    /// How many permits the --semaphore has. While other runs hold or wait, their limit applies; `lockkeeper limit` changes it
    #[arg(long, value_name = "N", requires = "semaphore", value_parser = permits)]
    pub(crate) limit: Option<u32>,

    /// How many of these permits this run takes [default: 1]
    #[arg(long, value_name = "N", requires = "semaphore", value_parser = permits)]
    pub(crate) permits: Option<u32>,

    /// An election: one of all runs that name it leads and runs its program; the others stand by, in the order in which they asked
    // The options that require one of these are listed too: the parser does not require an option that this one excludes.
    #[arg(long, value_name = "NAME")]
    #[arg(conflicts_with_all = ["locks", "semaphore", "limit", "permits", "fair", "reenter", "shared", "exclusive", "once_per", "slot"])]
    pub(crate) elect: Option<String>,

    /// The value of the leader, for example its address: `lockkeeper leader` shows it
    #[arg(long, value_name = "TEXT", requires = "elect", conflicts_with_all = ["locks", "semaphore"])]
    pub(crate) value: Option<String>,

    #[command(flatten)]
    pub(crate) slots: SlotOptions,

    /// Give up at once if another run holds the lock
    #[arg(long, conflicts_with = "wait")]
    pub(crate) no_wait: bool,

    /// Give up after this time, but not sooner, even if the server is unreachable [default: wait without limit while the server
    /// answers]
    #[arg(long, value_name = "TIME", value_parser = time)]
    pub(crate) wait: Option<Duration>,

    /// Length of the lease: how long the lock stays unavailable if this machine dies
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = time)]
    pub(crate) ttl: Duration,

    /// Give up the lock and stop the program after this time
    #[arg(long, value_name = "TIME", value_parser = time)]
    pub(crate) max_hold: Option<Duration>,

    /// Keep the lock unavailable for at least this time, even if the program ends sooner
    #[arg(long, value_name = "TIME", value_parser = time)]
    pub(crate) min_hold: Option<Duration>,

    /// How long before the end of the lease the program is asked to stop, at most a third of the ttl
    /// [default: 5s, or a sixth of the ttl if that is shorter]
    #[arg(long, value_name = "TIME", value_parser = time)]
    pub(crate) grace: Option<Duration>,

    /// What to do with the program when the lock is about to be lost
    #[arg(long, value_name = "WHAT", default_value = "terminate")]
    pub(crate) on_lost: OnLost,

    /// Exit code if others hold the lock, or if a failed slot may not be retried yet. With 0, the reason is printed only on a
    /// terminal
    #[arg(short = 'E', long, value_name = "CODE", default_value_t = crate::exit::CONFLICT)]
    pub(crate) conflict_exit_code: u8,

    /// Keep the lock until the last process of the program's group has ended; otherwise the processes that the program leaves
    /// behind are stopped when it ends
    #[arg(long)]
    pub(crate) keep: bool,

    /// Write the events of the run to this file, one JSON object per line; for example /dev/fd/3. A named pipe must have a reader
    #[arg(long, value_name = "FILE")]
    pub(crate) events: Option<PathBuf>,

    /// The program and its arguments
    #[arg(last = true, required = true, value_name = "COMMAND", action = ArgAction::Append)]
    pub(crate) program: Vec<OsString>,
}

/// What to do with the program when the lock is about to be lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum OnLost {
    /// SIGTERM, and SIGKILL before the lease can end
    Terminate,
    /// SIGKILL as late as possible, but at once if the lock is gone or revoked
    Kill,
    /// Nothing: the program continues without the lock
    Ignore,
}

/// Options of `serve`.
#[derive(Debug, Args)]
pub(crate) struct ServeOptions {
    /// The address and port to listen on; port 0 takes a free port and prints it. Anybody who can connect sees all names and labels
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:9090", value_parser = address)]
    pub(crate) listen: SocketAddr,

    /// Another name by which browsers reach this server, in addition to localhost and IP addresses, for example through a proxy.
    /// May be given several times
    #[arg(long = "host", value_name = "NAME")]
    pub(crate) hosts: Vec<String>,

    /// Let anybody with the token revoke locks
    #[arg(long)]
    pub(crate) allow_revoke: bool,

    /// A file whose only line is that token, at least 16 characters [env: LOCKKEEPER_SERVE_TOKEN, the token itself]
    #[arg(long, value_name = "FILE", requires = "allow_revoke")]
    pub(crate) token_file: Option<PathBuf>,

    /// Which names: * matches any text, ? one character, [a-c] one of these characters
    #[arg(default_value = "*")]
    pub(crate) pattern: String,
}

fn address(text: &str) -> Result<SocketAddr, &'static str> {
    text.parse()
        .map_err(|_| "expected an address and a port, such as 127.0.0.1:9090 or [::1]:9090")
}
