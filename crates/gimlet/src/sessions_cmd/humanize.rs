//! Human-readable ages, sizes and times.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use jiff::Timestamp;
use jiff::civil::Date;
use jiff::tz::TimeZone;

use crate::report::Report;

/// Formats an age in one unit.
pub(super) fn format_age(then: SystemTime, now: SystemTime) -> String {
    let seconds = now.duration_since(then).unwrap_or_default().as_secs();
    match seconds {
        0..60 => "now".to_owned(),
        60..3_600 => format!("{} min", seconds / 60),
        3_600..86_400 => format!("{} h", seconds / 3_600),
        86_400..2_592_000 => format!("{} d", seconds / 86_400),
        2_592_000..31_536_000 => format!("{} mon", seconds / 2_592_000),
        _ => format!("{} y", seconds / 31_536_000),
    }
}

pub(super) fn format_size(bytes: u64) -> String {
    match bytes {
        0..1_000 => format!("{bytes} B"),
        1_000..1_000_000 => format!("{} kB", bytes / 1_000),
        1_000_000..1_000_000_000 => format!("{:.1} MB", bytes as f64 / 1e6),
        _ => format!("{:.1} GB", bytes as f64 / 1e9),
    }
}

pub(super) fn pluralize(number: usize, one: &str, many: &str) -> String {
    if number == 1 { format!("1 {one}") } else { format!("{number} {many}") }
}

/// Formats a recorded time in the local time zone, or in UTC, marked as such, where that is unknown. Returns the text
/// unchanged when it is not a time.
pub(super) fn format_local_time(recorded: &str) -> String {
    let Ok(time) = recorded.parse::<Timestamp>() else { return recorded.to_owned() };
    let zone = TimeZone::system();
    let form = if zone.is_unknown() { "%Y-%m-%d %H:%M UTC" } else { "%Y-%m-%d %H:%M" };
    time.to_zoned(zone).strftime(form).to_string()
}

pub(super) fn format_local_ms(milliseconds: i64) -> String {
    Timestamp::from_millisecond(milliseconds)
        .map_or_else(|_| String::new(), |time| format_local_time(&time.to_string()))
}

/// Formats a time in UTC, for programs.
pub(super) fn format_iso(time: SystemTime) -> String {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    format_iso_ms(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
}

pub(super) fn format_iso_ms(milliseconds: i64) -> String {
    let time = Timestamp::from_millisecond(milliseconds).unwrap_or(Timestamp::MAX);
    time.strftime("%Y-%m-%dT%H:%M:%S%.3fZ").to_string()
}

/// Parses a point in time: an age (`14d`, `12h`, `30m`), a day, or a full time.
pub(super) fn parse_time(text: &str, flag: &str, now: SystemTime) -> Result<SystemTime, Report> {
    let unclear = || {
        Report::new(format!("{flag}: '{text}' is no time"))
            .with_hint("Say 14d, 12h, 30m, 2026-01-31 or 2026-01-31T12:00:00Z")
    };
    let units = [('m', 60), ('h', 3_600), ('d', 86_400), ('w', 604_800)];
    for (unit, seconds) in units {
        if let Some(number) = text.strip_suffix(unit).and_then(|number| number.parse::<u32>().ok()) {
            let ago = Duration::from_secs(u64::from(number) * seconds);
            return Ok(now.checked_sub(ago).unwrap_or(UNIX_EPOCH));
        }
    }
    if let Ok(day) = text.parse::<Date>() {
        let start = day.to_zoned(TimeZone::system()).map_err(|_| unclear())?;
        return Ok(start.timestamp().into());
    }
    text.parse::<Timestamp>().map(SystemTime::from).map_err(|_| unclear())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_sizes_and_points_in_time_read_as_people_say_them() {
        let now = UNIX_EPOCH + Duration::from_secs(2_000_000_000);
        let ago = |seconds| format_age(now - Duration::from_secs(seconds), now);
        assert_eq!(
            [ago(5), ago(61), ago(7_300), ago(200_000), ago(9_000_000)],
            ["now", "1 min", "2 h", "2 d", "3 mon"]
        );
        assert_eq!(format_age(now + Duration::from_secs(9), now), "now");
        assert_eq!(
            [format_size(5), format_size(84_321), format_size(1_250_000), format_size(3_000_000_000)],
            ["5 B", "84 kB", "1.2 MB", "3.0 GB"]
        );
        let day = now - Duration::from_secs(86_400);
        assert_eq!(parse_time("24h", "--since", now).unwrap(), day);
        assert_eq!(parse_time("1d", "--since", now).unwrap(), day);
        assert_eq!(parse_time("1970-01-01T00:00:09Z", "--since", now).unwrap(), UNIX_EPOCH + Duration::from_secs(9));
        assert!(parse_time("2026-02-03", "--since", now).is_ok());
        assert!(parse_time("yesterday", "--since", now).unwrap_err().text().contains("--since: 'yesterday'"));
    }
}
