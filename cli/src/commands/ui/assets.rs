//! Embedded page, built from `cli/ui`.

/// File of the page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Asset {
    /// Path below the token.
    pub path: &'static str,
    pub content_type: &'static str,
    pub bytes: &'static [u8],
}

/// All files. The first is the page itself.
pub(super) const ALL: [Asset; 4] = [
    Asset {
        path: "",
        content_type: "text/html; charset=utf-8",
        bytes: include_bytes!("../../../ui/dist/index.html"),
    },
    Asset {
        path: "app.js",
        content_type: "text/javascript; charset=utf-8",
        bytes: include_bytes!("../../../ui/dist/app.js"),
    },
    Asset {
        path: "style.css",
        content_type: "text/css; charset=utf-8",
        bytes: include_bytes!("../../../ui/dist/style.css"),
    },
    Asset {
        path: "favicon.svg",
        content_type: "image/svg+xml",
        bytes: include_bytes!("../../../ui/dist/favicon.svg"),
    },
];

/// Returns the file at `path`.
pub(super) fn find(path: &str) -> Option<Asset> {
    ALL.into_iter().find(|asset| asset.path == path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_asks_for_nothing_from_elsewhere_and_runs_nothing_inline() {
        let page = std::str::from_utf8(ALL[0].bytes).expect("text");
        for refused in ["http://", "https://", "style=", "onload=", "<style"] {
            assert!(!page.contains(refused), "{refused}");
        }
        for script in page.split("<script").skip(1) {
            assert!(script.contains("src="), "{script}");
        }
    }
}
