//! One model, open in the page, and the placement that the page shows.

use optisci::cost::Crossings;
use optisci::placement::{Home, Placement};
use optisci::topology::End;
use optisci::{Costs, Error, Evaluation, Model};
use serde_json::{Value, json};

use crate::numbers;
use crate::users::Users;

/// A model and the placement from which trials and explanations start.
pub struct Session {
    pub(crate) model: Model,
    pub(crate) users: Users,
    pub(crate) placement: Placement,
    pub(crate) evaluation: Evaluation,
    /// Of the shown placement, as the page has them.
    pub(crate) numbers: Vec<f64>,
    /// Who crosses which link in it.
    pub(crate) crossings: Crossings,
}

impl Session {
    /// Opens a model file; everything is on node 0 until the page sends a placement.
    ///
    /// # Errors
    /// The field, by its JSON path, and what was expected there.
    pub fn open(text: &str) -> Result<Session, Error> {
        let model = Model::from_json(text)?;
        let placement =
            Placement { processes: vec![0; model.processes.len()], segments: vec![Home::One(0); model.segments.len()] };
        let evaluation = Costs::new(&model).evaluate(&placement);
        let crossings = Crossings::new(&Costs::new(&model), &placement);
        let numbers = numbers::of(&model, &placement, &evaluation, &crossings);
        Ok(Session { users: Users::new(&model), model, placement, evaluation, numbers, crossings })
    }

    /// The model that is open.
    pub fn model(&self) -> &Model {
        &self.model
    }

    /// What the page draws: the directed links with their ends; a switch is `[level, index]`.
    pub fn describe(&self) -> Value {
        let end = |end: End| match end {
            End::Node(node) => json!(node),
            End::Switch { level, index } => json!([level, index]),
        };
        let topology = &self.model.topology;
        let links = (0..topology.links()).map(|number| topology.link(number));
        json!({
            "nodes": topology.nodes(),
            "links": links.map(|link| json!({ "from": end(link.from), "to": end(link.to) })).collect::<Vec<_>>(),
        })
    }

    /// Reads a placement: the node of each process, then for each segment the number of its copies and their nodes.
    ///
    /// # Errors
    /// When it is not a placement of this model.
    pub fn placement(&self, words: &[u32]) -> Result<Placement, Error> {
        let broken = || Error::whole("the page sent a placement of another model");
        let nodes = self.model.nodes();
        let mut words = words.iter().copied();
        let mut word = || words.next().ok_or_else(broken);
        let node = |node: u32| if (node as usize) < nodes { Ok(node) } else { Err(broken()) };
        let processes = self.model.processes.iter().map(|_| node(word()?)).collect::<Result<Vec<_>, _>>()?;
        let mut segments = Vec::with_capacity(self.model.segments.len());
        for _ in &self.model.segments {
            let copies = word()? as usize;
            if copies == 0 || copies > nodes {
                return Err(broken());
            }
            let home = (0..copies).map(|_| node(word()?)).collect::<Result<Vec<_>, _>>()?;
            segments.push(if copies == 1 { Home::One(home[0]) } else { Home::of(home) });
        }
        if words.next().is_some() { Err(broken()) } else { Ok(Placement { processes, segments }) }
    }

    /// Takes a placement as the one that is shown.
    pub fn show(&mut self, placement: Placement) {
        let costs = Costs::new(&self.model);
        self.evaluation = costs.evaluate(&placement);
        self.crossings = Crossings::new(&costs, &placement);
        self.numbers = numbers::of(&self.model, &placement, &self.evaluation, &self.crossings);
        self.placement = placement;
    }

    /// Limits and pins that the shown placement breaks, in words.
    pub fn violations(&self) -> Vec<String> {
        self.evaluation.violations.iter().map(|violation| violation.describe(&self.model)).collect()
    }
}
