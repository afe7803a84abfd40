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

use gimlet_app::start::register_secrets;
use gimlet_core::Redactor;
use gimlet_proto::Env;
use gimlet_store::{
    SessionFiles, SessionSummary, TranscriptItem, TranscriptView, open_transcript_view, read_summary,
    rename_without_replacing,
};

use super::SessionsContext;
use crate::args::{ExportArgs, ExportFormat};
use crate::report::Report;

pub(super) fn run(args: &ExportArgs, desk: &SessionsContext<'_>) -> Result<ExitCode, Report> {
    let files = desk.find_session(&args.session)?;
    let session = ExportSession::open(&files)?;
    let redactor = env_redactor(&desk.around.env);
    // By convention a dash is standard output.
    let output = args.output.as_ref().filter(|path| path.as_os_str() != "-").map(|path| desk.around.cwd.join(path));
    let format = args.format.map_or_else(|| format_from_extension(output.as_deref()), Ok)?;
    let Some(path) = output else {
        let mut out = MaskedWriter { out: BufWriter::new(io::stdout()), redactor };
        return match session.write_as(format, &mut out) {
            // A closed pipe is not a failure.
            Err(ExportError::Write(error)) if error.kind() == io::ErrorKind::BrokenPipe => Ok(ExitCode::SUCCESS),
            done => {
                done.map(|()| ExitCode::SUCCESS).map_err(|trouble| trouble.into_report(Path::new("standard output")))
            }
        };
    };
    match ExportTarget::for_path(&path, args.force).map_err(|error| write_error_report(&path, &error))? {
        ExportTarget::Stream(file) => {
            let mut out = MaskedWriter { out: BufWriter::new(file), redactor };
            session.write_as(format, &mut out).map_err(|trouble| trouble.into_report(&path))?;
        }
        ExportTarget::Name(place) => {
            let file = ExportFile::create_beside(&place, args.force)?;
            let mut out = MaskedWriter { out: BufWriter::new(&file.file), redactor };
            session.write_as(format, &mut out).map_err(|trouble| trouble.into_report(&path))?;
            drop(out);
            file.commit(args.force)?;
        }
    }
    crate::print_error_line(&format!("wrote {}", path.display()));
    Ok(ExitCode::SUCCESS)
}

/// Returns the format for the file's extension.
fn format_from_extension(path: Option<&Path>) -> Result<ExportFormat, Report> {
    match path.and_then(Path::extension).and_then(|extension| extension.to_str()) {
        Some("json") => Ok(ExportFormat::Json),
        Some("html" | "htm") => Ok(ExportFormat::Html),
        None | Some("md" | "markdown" | "txt") => Ok(ExportFormat::Markdown),
        Some(other) => Err(Report::new(format!("a session cannot be written as {other}"))
            .with_hint("Name the file .md, .json or .html, or add --format markdown, json or html")),
    }
}

/// Destination of a named document.
enum ExportTarget {
    /// A regular file, existing or not.
    Name(PathBuf),
    /// A device or a pipe: it is written to, never replaced.
    Stream(File),
}

impl ExportTarget {
    /// Chooses the destination. `--force` replaces only a regular file; a symlink to one is kept, and devices and pipes
    /// are written to.
    fn for_path(path: &Path, force: bool) -> io::Result<Self> {
        match path.metadata() {
            Ok(found) if force && found.is_file() => path.canonicalize().map(Self::Name),
            Ok(_) if force => OpenOptions::new().write(true).open(path).map(Self::Stream),
            Err(error) if force && path.is_symlink() => Err(error),
            _ => Ok(Self::Name(path.to_owned())),
        }
    }
}

/// A document being written. Until it is complete it has a temporary name in its folder, and is removed when it is not
/// finished: a full disk leaves neither an empty nor a partial file.
struct ExportFile<'a> {
    file: File,
    path: &'a Path,
    unfinished: PathBuf,
}

impl<'a> ExportFile<'a> {
    /// Creates a temporary file that only its owner may read.
    fn create_beside(path: &'a Path, force: bool) -> Result<Self, Report> {
        if !force && path.symlink_metadata().is_ok() {
            return Err(exists_report(path));
        }
        let mut name = path.file_name().unwrap_or_default().to_owned();
        name.push(format!(".{}.unfinished", std::process::id()));
        let unfinished = path.with_file_name(name);
        let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&unfinished);
        let file = file.map_err(|error| write_error_report(path, &error))?;
        Ok(Self { file, path, unfinished })
    }

    /// Moves the file to its place; an existing file is replaced only with `force`.
    fn commit(self, force: bool) -> Result<(), Report> {
        let name = || match force {
            true => std::fs::rename(&self.unfinished, self.path),
            false => rename_without_replacing(&self.unfinished, self.path),
        };
        self.file.sync_all().and_then(|()| name()).map_err(|error| match error.kind() {
            io::ErrorKind::AlreadyExists => exists_report(self.path),
            _ => write_error_report(self.path, &error),
        })
    }
}

impl Drop for ExportFile<'_> {
    fn drop(&mut self) {
        // After a rename there is nothing to remove.
        drop(std::fs::remove_file(&self.unfinished));
    }
}

fn exists_report(path: &Path) -> Report {
    if path.is_dir() {
        return Report::new(format!("{} is a folder", path.display())).with_hint("Name a file in it");
    }
    Report::new(format!("{} is there already", path.display())).with_hint("--force replaces it")
}

fn write_error_report(path: &Path, error: &io::Error) -> Report {
    Report::new(format!("{} cannot be written: {error}", path.display()))
}

/// Returns a redactor for the credentials of this environment, in every encoding that a format uses.
pub(super) fn env_redactor(env: &Env) -> Redactor {
    let redactor = Redactor::default();
    register_secrets(&redactor, env);
    redactor.add_encoding(html::escape_html);
    redactor
}

/// Reason why a document was not finished.
enum ExportError {
    Read(gimlet_store::LoadError),
    Write(io::Error),
}

impl From<io::Error> for ExportError {
    fn from(error: io::Error) -> Self {
        ExportError::Write(error)
    }
}

impl ExportError {
    fn into_report(self, out: &Path) -> Report {
        match self {
            ExportError::Read(error) => Report::new(error.to_string()),
            ExportError::Write(error) => write_error_report(out, &error),
        }
    }
}

/// A session opened for export.
struct ExportSession {
    summary: SessionSummary,
    view: TranscriptView,
}

impl ExportSession {
    fn open(files: &SessionFiles) -> Result<Self, Report> {
        let path: PathBuf = files.transcript();
        let summary = read_summary(&path)
            .map_err(|error| Report::new(format!("{} cannot be read: {error}", path.display())))?
            .ok_or_else(|| Report::new(format!("{} is empty", path.display())))?;
        let story = open_transcript_view(&path).map_err(|error| Report::new(error.to_string()))?;
        Ok(Self { summary, view: story })
    }

    fn title(&self) -> String {
        self.summary.headline().unwrap_or("A session").to_owned()
    }

    fn items(&self) -> impl Iterator<Item = Result<TranscriptItem, ExportError>> {
        self.view.items().map(|moment| moment.map_err(ExportError::Read))
    }

    fn write_as<W: Write>(&self, format: ExportFormat, out: &mut MaskedWriter<W>) -> Result<(), ExportError> {
        match format {
            ExportFormat::Markdown => markdown::write(self, out)?,
            ExportFormat::Json => json::write(self, out)?,
            ExportFormat::Html => html::write(self, out)?,
        }
        Ok(out.out.flush()?)
    }
}

/// Writer that redacts credentials in everything written to it.
struct MaskedWriter<W> {
    out: W,
    redactor: Redactor,
}

impl<W: Write> MaskedWriter<W> {
    fn write_masked(&mut self, text: &str) -> Result<(), ExportError> {
        Ok(self.out.write_all(self.redactor.mask(text).as_bytes())?)
    }
}
