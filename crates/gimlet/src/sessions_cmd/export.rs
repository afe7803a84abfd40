//! `gimlet sessions export`: a session as a document. Entries are written one by one; credentials are masked in every
//! format.

mod html;
mod json;
mod markdown;

use std::fs::{File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use gimlet_core::Redactor;
use gimlet_proto::Env;
use gimlet_store::{Moment, SessionFiles, SessionSummary, Story, give_name, peek, read_story};

use super::Desk;
use crate::args::{ExportArgs, ExportFormat};
use crate::report::Report;
use crate::start::teach;

pub(super) fn run(args: &ExportArgs, desk: &Desk<'_>) -> Result<ExitCode, Report> {
    let files = desk.named(&args.session)?;
    let session = Session::open(&files)?;
    let redactor = redactor(&desk.around.env);
    // By custom a dash is standard output.
    let output = args.output.as_ref().filter(|path| path.as_os_str() != "-").map(|path| desk.around.cwd.join(path));
    let format = args.format.map_or_else(|| format_of(output.as_deref()), Ok)?;
    let Some(path) = output else {
        let mut out = Masked { out: BufWriter::new(io::stdout()), redactor };
        return match session.write(format, &mut out) {
            // Nobody reading any more is no failure of what was asked.
            Err(Trouble::Write(error)) if error.kind() == io::ErrorKind::BrokenPipe => Ok(ExitCode::SUCCESS),
            done => done.map(|()| ExitCode::SUCCESS).map_err(|trouble| trouble.report(Path::new("standard output"))),
        };
    };
    match Place::of(&path, args.force).map_err(|error| unwritable(&path, &error))? {
        Place::Stream(file) => {
            let mut out = Masked { out: BufWriter::new(file), redactor };
            session.write(format, &mut out).map_err(|trouble| trouble.report(&path))?;
        }
        Place::Name(place) => {
            let file = NewFile::beside(&place, args.force)?;
            let mut out = Masked { out: BufWriter::new(&file.file), redactor };
            session.write(format, &mut out).map_err(|trouble| trouble.report(&path))?;
            drop(out);
            file.put_in_place(args.force)?;
        }
    }
    crate::say_on_stderr(&format!("wrote {}", path.display()));
    Ok(ExitCode::SUCCESS)
}

/// What the name of the file promises.
fn format_of(path: Option<&Path>) -> Result<ExportFormat, Report> {
    match path.and_then(Path::extension).and_then(|extension| extension.to_str()) {
        Some("json") => Ok(ExportFormat::Json),
        Some("html" | "htm") => Ok(ExportFormat::Html),
        None | Some("md" | "markdown" | "txt") => Ok(ExportFormat::Markdown),
        Some(other) => Err(Report::new(format!("a session cannot be written as {other}"))
            .hint("Name the file .md, .json or .html, or add --format markdown, json or html")),
    }
}

/// Where a document with a name goes.
enum Place {
    /// A plain file, there or not.
    Name(PathBuf),
    /// A device or a pipe: it is written to, and stays what it is.
    Stream(File),
}

impl Place {
    /// What `--force` may replace is a plain file alone; a link to one stays, and so does whatever is no file.
    fn of(path: &Path, force: bool) -> io::Result<Self> {
        match path.metadata() {
            Ok(found) if force && found.is_file() => path.canonicalize().map(Self::Name),
            Ok(_) if force => OpenOptions::new().write(true).open(path).map(Self::Stream),
            Err(error) if force && path.is_symlink() => Err(error),
            _ => Ok(Self::Name(path.to_owned())),
        }
    }
}

/// A document on its way to its place. Until it is whole it has another name in the same folder, and goes away when it is
/// not finished: a full disk leaves neither an empty file nor half of one.
struct NewFile<'a> {
    file: File,
    path: &'a Path,
    unfinished: PathBuf,
}

impl<'a> NewFile<'a> {
    /// Begins a file that only its owner may read.
    fn beside(path: &'a Path, force: bool) -> Result<Self, Report> {
        if !force && path.symlink_metadata().is_ok() {
            return Err(is_there(path));
        }
        let mut name = path.file_name().unwrap_or_default().to_owned();
        name.push(format!(".{}.unfinished", std::process::id()));
        let unfinished = path.with_file_name(name);
        let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&unfinished);
        let file = file.map_err(|error| unwritable(path, &error))?;
        Ok(Self { file, path, unfinished })
    }

    /// One that is there is replaced only when that was asked for.
    fn put_in_place(self, force: bool) -> Result<(), Report> {
        let name = || match force {
            true => std::fs::rename(&self.unfinished, self.path),
            false => give_name(&self.unfinished, self.path),
        };
        self.file.sync_all().and_then(|()| name()).map_err(|error| match error.kind() {
            io::ErrorKind::AlreadyExists => is_there(self.path),
            _ => unwritable(self.path, &error),
        })
    }
}

impl Drop for NewFile<'_> {
    fn drop(&mut self) {
        // A file that was renamed is not there any more.
        drop(std::fs::remove_file(&self.unfinished));
    }
}

fn is_there(path: &Path) -> Report {
    if path.is_dir() {
        return Report::new(format!("{} is a folder", path.display())).hint("Name a file in it");
    }
    Report::new(format!("{} is there already", path.display())).hint("--force replaces it")
}

fn unwritable(path: &Path, error: &io::Error) -> Report {
    Report::new(format!("{} cannot be written: {error}", path.display()))
}

/// The credentials of this environment, in every spelling that a format gives them.
pub(super) fn redactor(env: &Env) -> Redactor {
    let redactor = Redactor::default();
    teach(&redactor, env);
    redactor.learn_spelling(html::escaped);
    redactor
}

/// Why a document was not finished.
enum Trouble {
    Read(gimlet_store::LoadError),
    Write(io::Error),
}

impl From<io::Error> for Trouble {
    fn from(error: io::Error) -> Self {
        Trouble::Write(error)
    }
}

impl Trouble {
    fn report(self, out: &Path) -> Report {
        match self {
            Trouble::Read(error) => Report::new(error.to_string()),
            Trouble::Write(error) => unwritable(out, &error),
        }
    }
}

/// A session, open for being written down.
struct Session {
    summary: SessionSummary,
    story: Story,
}

impl Session {
    fn open(files: &SessionFiles) -> Result<Self, Report> {
        let path: PathBuf = files.transcript();
        let summary = peek(&path)
            .map_err(|error| Report::new(format!("{} cannot be read: {error}", path.display())))?
            .ok_or_else(|| Report::new(format!("{} is empty", path.display())))?;
        let story = read_story(&path).map_err(|error| Report::new(error.to_string()))?;
        Ok(Self { summary, story })
    }

    fn title(&self) -> String {
        self.summary.headline().unwrap_or("A session").to_owned()
    }

    fn moments(&self) -> impl Iterator<Item = Result<Moment, Trouble>> {
        self.story.moments().map(|moment| moment.map_err(Trouble::Read))
    }

    fn write<W: Write>(&self, format: ExportFormat, out: &mut Masked<W>) -> Result<(), Trouble> {
        match format {
            ExportFormat::Markdown => markdown::write(self, out)?,
            ExportFormat::Json => json::write(self, out)?,
            ExportFormat::Html => html::write(self, out)?,
        }
        Ok(out.out.flush()?)
    }
}

/// Where a document goes; nothing gets there without being searched for credentials.
struct Masked<W> {
    out: W,
    redactor: Redactor,
}

impl<W: Write> Masked<W> {
    fn put(&mut self, text: &str) -> Result<(), Trouble> {
        Ok(self.out.write_all(self.redactor.mask(text).as_bytes())?)
    }
}
