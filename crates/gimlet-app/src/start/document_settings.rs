//! What reading the documents of users and projects depends on, as settings and trust are now. The settings of a
//! running session publish it whenever they change; sources of documents look at it each time they read.

use std::sync::{Arc, Mutex, PoisonError};

use gimlet_config::SettingsLocations;
use gimlet_config::{
    DocumentReader, EffectiveSettings, LoadedPlugin, LoadedSettings, ProjectTrust, SettingSources, Settings,
};

/// Settings and trust at one moment.
#[derive(Clone, Debug)]
pub(super) struct DocumentSettings {
    pub(super) locations: SettingsLocations,
    pub(super) sources: SettingSources,
    pub(super) trust: ProjectTrust,
    pub(super) settings: Settings,
    /// Plugins whose documents are read.
    pub(super) plugins: Vec<Arc<LoadedPlugin>>,
}

impl DocumentSettings {
    /// Returns a reader that sees the files as they are now.
    pub(super) fn reader(&self) -> DocumentReader {
        let reader = DocumentReader::new(&self.locations, self.sources);
        reader.set_plugins(&self.plugins);
        reader
    }
}

/// The present settings. Clones share them.
#[derive(Clone, Debug)]
pub(super) struct LiveDocumentSettings {
    shared: Arc<Mutex<Arc<DocumentSettings>>>,
}

impl LiveDocumentSettings {
    /// Creates them for files of which nothing is trusted yet.
    pub(super) fn new(loaded: &LoadedSettings) -> Self {
        let settings = DocumentSettings {
            locations: loaded.locations.clone(),
            sources: loaded.sources,
            trust: ProjectTrust::none(),
            settings: Settings::default(),
            plugins: Vec::new(),
        };
        Self { shared: Arc::new(Mutex::new(Arc::new(settings))) }
    }

    pub(super) fn current(&self) -> Arc<DocumentSettings> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(super) fn replace(
        &self,
        loaded: &LoadedSettings,
        sources: SettingSources,
        trust: &ProjectTrust,
        effective: &EffectiveSettings,
        plugins: &[Arc<LoadedPlugin>],
    ) {
        let settings = DocumentSettings {
            locations: loaded.locations.clone(),
            sources,
            trust: trust.clone(),
            settings: effective.settings.clone(),
            plugins: plugins.to_vec(),
        };
        *self.shared.lock().unwrap_or_else(PoisonError::into_inner) = Arc::new(settings);
    }
}
