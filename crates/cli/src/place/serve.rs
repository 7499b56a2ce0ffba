//! `deck place serve`: the browser tool.

use std::path::Path;

use optisci::server::{self, Server};

use super::files;

/// Where the page is unless it is told otherwise: links that were shared should go on working.
pub const PORT: u16 = 8426;

/// Serves the page until Ctrl-C.
pub fn run(port: u16, model: Option<&Path>) -> Result<(), String> {
    if !server::has_page() {
        return Err(
            "this deck was built from sources without the page of the browser tool: neither web/optisci/dist/page nor \
                    web/optisci/built was there; run: make web build"
                .to_owned(),
        );
    }
    // A file that the page would refuse is better refused here.
    let text = model.map(files::model_with_text).transpose()?.map(|(_, text)| text);
    let server = Server::bind(port, text).map_err(|error| {
        let remedy = if port == 0 { "" } else { "; use --port 0 to take a free one" };
        format!("port {port} of 127.0.0.1 cannot be listened on: {error}{remedy}")
    })?;
    super::print(&format!("{} shows the browser tool to this host; Ctrl-C ends it\n", server.address()))?;
    server.run()
}
