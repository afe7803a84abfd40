//! What the environment and settings say about the terminal: colours, characters, and what it understands.

use std::path::PathBuf;

use gimlet_app::ProcessEnv;
use gimlet_config::{EditorMode, KeybindingFlavor, NotifyChannel as NotifySetting, Settings};
use gimlet_proto::{EntryId, Env};
use gimlet_tui::app::AppOptions;
use gimlet_tui::composer::WordFlavor;
use gimlet_tui::feed::MotionMode;
use gimlet_tui::glyphs::GlyphSet;
use gimlet_tui::key_bindings::KeyBindings;
use gimlet_tui::run::TerminalTraits;
use gimlet_tui::screen::terminal_signals::{NotifyChannel, SignalSupport};
use gimlet_tui::screen::{ResizeBehavior, RowCharset};
use gimlet_tui::theme::{ColorDepth, ColorTheme, ScreenBackground};

/// File of the user's own keys, in the configuration folder.
const KEYBINDINGS: &str = "keybindings.json";
/// A larger file is not a table of keys.
const MAX_KEYBINDINGS_BYTES: u64 = 1 << 20;

/// Returns the options that follow from the environment and the settings; what is about the session is added later.
pub(super) fn app_options(around: &ProcessEnv, settings: &Settings) -> AppOptions {
    let env = &around.env;
    let (bindings, remarks) = read_bindings(around);
    let is_reduced = settings.prefers_reduced_motion.unwrap_or(false);
    AppOptions {
        theme: color_theme(env, settings),
        glyphs: if has_unicode(env) { &GlyphSet::UNICODE } else { &GlyphSet::ASCII },
        motion: if is_reduced { MotionMode::Reduced } else { MotionMode::Animated },
        bindings,
        uses_vim: settings.editor_mode == Some(EditorMode::Vim),
        word_flavor: match settings.keybinding_flavor {
            Some(KeybindingFlavor::Readline) => WordFlavor::Readline,
            Some(KeybindingFlavor::Classic) | None => WordFlavor::Classic,
        },
        remarks,
        new_entry_id: || EntryId::new(""),
        now_ms_since_1970: super::terminal_services::now_ms,
        time_zone: jiff::tz::TimeZone::system,
        version: String::new(),
        branch: None,
        first_prompt: None,
        notifies: settings.preferred_notif_channel != Some(NotifySetting::NotificationsDisabled),
    }
}

/// Returns what is known of the terminal from its name.
pub(super) fn terminal_traits(env: &Env, settings: &Settings) -> TerminalTraits {
    let term = env.exact("TERM").unwrap_or("");
    let is_plain = term == "linux" || term.starts_with("vt") || env.exact("XTERM_VERSION").is_some();
    let program = env.exact("TERM_PROGRAM").unwrap_or("");
    let is_tmux = env.exact("TMUX").is_some();
    let is_screen = env.exact("STY").is_some();
    let shows_progress = matches!(program, "ghostty" | "WezTerm") || env.exact("WT_SESSION").is_some();
    let may_title = !env.flag("CLAUDE_CODE_DISABLE_TERMINAL_TITLE") && term != "linux";
    TerminalTraits {
        charset: if has_unicode(env) { RowCharset::Unicode } else { RowCharset::Ascii },
        resize: if is_plain || is_screen { ResizeBehavior::Cuts } else { ResizeBehavior::Reflows },
        has_key_protocol: term != "linux",
        signals: SignalSupport {
            has_title: may_title,
            has_progress: shows_progress && !is_tmux && settings.terminal_progress_bar_enabled.unwrap_or(true),
            notify: notify_channel(env, settings, program),
            is_tmux,
        },
    }
}

fn notify_channel(env: &Env, settings: &Settings, program: &str) -> NotifyChannel {
    match settings.preferred_notif_channel {
        Some(NotifySetting::TerminalBell) => NotifyChannel::Bell,
        Some(NotifySetting::Iterm2 | NotifySetting::Iterm2WithBell | NotifySetting::Ghostty) => NotifyChannel::Osc9,
        Some(NotifySetting::Kitty) => NotifyChannel::Kitty,
        Some(NotifySetting::NotificationsDisabled) => NotifyChannel::Silent,
        _ if env.exact("KITTY_WINDOW_ID").is_some() => NotifyChannel::Kitty,
        _ if matches!(program, "iTerm.app" | "ghostty" | "WezTerm") => NotifyChannel::Osc9,
        _ => NotifyChannel::Bell,
    }
}

/// Returns true if the locale has characters beyond ASCII.
fn has_unicode(env: &Env) -> bool {
    let locale = env.exact("LC_ALL").or_else(|| env.exact("LC_CTYPE")).or_else(|| env.exact("LANG")).unwrap_or("");
    let locale = locale.to_ascii_lowercase();
    (locale.contains("utf-8") || locale.contains("utf8")) && env.exact("TERM") != Some("linux")
}

fn color_theme(env: &Env, settings: &Settings) -> ColorTheme {
    let theme = settings.theme.as_deref().unwrap_or("auto");
    let background = match theme {
        name if name.starts_with("light") => ScreenBackground::Light,
        "auto" => background_from_env(env),
        _ => ScreenBackground::Dark,
    };
    let depth = color_depth(env);
    let depth = if theme.ends_with("-ansi") { depth.min(ColorDepth::Sixteen) } else { depth };
    ColorTheme { background, depth }
}

/// Reads what some terminals say of their colours: `15;0`, the second number being the background's.
fn background_from_env(env: &Env) -> ScreenBackground {
    let background = env.exact("COLORFGBG").and_then(|value| value.rsplit(';').next()?.parse::<u8>().ok());
    match background {
        Some(7 | 15) => ScreenBackground::Light,
        _ => ScreenBackground::Dark,
    }
}

fn color_depth(env: &Env) -> ColorDepth {
    let term = env.exact("TERM").unwrap_or("");
    if env.exact("NO_COLOR").is_some() || term.is_empty() {
        return ColorDepth::None;
    }
    let color_term = env.exact("COLORTERM").unwrap_or("");
    if matches!(color_term, "truecolor" | "24bit") || term.ends_with("-direct") {
        ColorDepth::TrueColor
    } else if term.contains("256color") || matches!(term, "tmux" | "xterm-kitty" | "xterm-ghostty" | "alacritty") {
        ColorDepth::Indexed
    } else {
        ColorDepth::Sixteen
    }
}

/// Returns the file of the user's own keys.
pub(super) fn key_bindings_file(around: &ProcessEnv) -> PathBuf {
    around.config_home.join(KEYBINDINGS)
}

/// Reads the user's own keys. What is wrong with them is said, and the defaults stay.
pub(super) fn read_bindings(around: &ProcessEnv) -> (KeyBindings, Vec<String>) {
    let path = key_bindings_file(around);
    let text = match std::fs::metadata(&path) {
        Ok(found) if found.len() > MAX_KEYBINDINGS_BYTES => return too_large(&path),
        Ok(_) => std::fs::read_to_string(&path),
        Err(_) => return (KeyBindings::default(), Vec::new()),
    };
    match text {
        Ok(text) => {
            let (bindings, problems) = KeyBindings::parse(&text);
            let lines = problems.iter().map(|problem| format!("{}: {problem}", path.display())).collect();
            (bindings, lines)
        }
        Err(error) => (KeyBindings::default(), vec![format!("{} cannot be read: {error}", path.display())]),
    }
}

fn too_large(path: &std::path::Path) -> (KeyBindings, Vec<String>) {
    (KeyBindings::default(), vec![format!("{} is too large for a table of keys", path.display())])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colours_follow_the_environment() {
        let env =
            |pairs: &[(&str, &str)]| pairs.iter().fold(Env::default(), |env, (name, value)| env.with(name, value));
        for (pairs, depth) in [
            (&[("TERM", "xterm")][..], ColorDepth::Sixteen),
            (&[("TERM", "xterm-256color")], ColorDepth::Indexed),
            (&[("TERM", "xterm-256color"), ("COLORTERM", "truecolor")], ColorDepth::TrueColor),
            (&[("TERM", "xterm-256color"), ("NO_COLOR", "1")], ColorDepth::None),
            (&[], ColorDepth::None),
        ] {
            assert_eq!(color_depth(&env(pairs)), depth, "{pairs:?}");
        }
        assert_eq!(background_from_env(&env(&[("COLORFGBG", "0;15")])), ScreenBackground::Light);
        assert!(
            has_unicode(&env(&[("LANG", "C.UTF-8")])) && !has_unicode(&env(&[("LANG", "C.UTF-8"), ("LC_ALL", "C")]))
        );
    }
}
