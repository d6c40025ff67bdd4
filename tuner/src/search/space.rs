//! The legal points of one problem, as positions in parameters.

use std::collections::HashMap;

use thiserror::Error;

/// The legal points. A point is an index; what it means is its caller's.
///
/// Each point belongs to a group (a kernel family with a format) and has a position in every parameter of that group:
/// 0, 1, 2, … in the parameter's natural order. Neighbours are points of one group that differ in one parameter.
#[derive(Clone, Debug)]
pub struct Space {
    groups: Vec<u16>,
    positions: Vec<Vec<u16>>,
    prior: Vec<f64>,
    index: HashMap<(u16, Vec<u16>), usize>,
    /// By group: its points, and the positions that occur in each of its parameters.
    members: Vec<Group>,
}

#[derive(Clone, Debug)]
struct Group {
    id: u16,
    points: Vec<usize>,
    levels: Vec<Vec<u16>>,
}

/// Why points make no space.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum SpaceError {
    /// There are none.
    #[error("a space needs at least one point")]
    Empty,
    /// The three lists differ in length.
    #[error(
        "{groups} groups, {positions} positions and {prior} prior values do not describe the same points"
    )]
    Lengths {
        /// Length of the groups.
        groups: usize,
        /// Length of the positions.
        positions: usize,
        /// Length of the prior.
        prior: usize,
    },
    /// Points of one group have different numbers of parameters.
    #[error("point {0} has another number of parameters than its group")]
    Parameters(usize),
    /// Two points have the same group and positions.
    #[error("points {0} and {1} are the same")]
    Duplicate(usize, usize),
    /// A prior is not a number, so it orders nothing.
    #[error("the prior of point {0} is not a number")]
    Prior(usize),
}

impl Space {
    /// A space of points: each one's group, its positions, and its prior: the smaller, the faster it is thought to be, on
    /// any scale.
    ///
    /// # Errors
    /// If there is no point, the lists differ in length, a group's points differ in their number of parameters, two points
    /// are the same, or a prior is not a number.
    pub fn new(groups: Vec<u16>, positions: Vec<Vec<u16>>, prior: Vec<f64>) -> Result<Self, SpaceError> {
        if groups.is_empty() {
            return Err(SpaceError::Empty);
        }
        if groups.len() != positions.len() || groups.len() != prior.len() {
            let (groups, positions, prior) = (groups.len(), positions.len(), prior.len());
            return Err(SpaceError::Lengths { groups, positions, prior });
        }
        if let Some(point) = prior.iter().position(|value| value.is_nan()) {
            return Err(SpaceError::Prior(point));
        }
        let mut index = HashMap::with_capacity(groups.len());
        let mut members: Vec<Group> = Vec::new();
        for (point, (group, position)) in groups.iter().zip(&positions).enumerate() {
            if let Some(other) = index.insert((*group, position.clone()), point) {
                return Err(SpaceError::Duplicate(other, point));
            }
            let place = members.iter().position(|member| member.id == *group).unwrap_or_else(|| {
                members.push(Group {
                    id: *group,
                    points: Vec::new(),
                    levels: vec![Vec::new(); position.len()],
                });
                members.len() - 1
            });
            let member = &mut members[place];
            if member.levels.len() != position.len() {
                return Err(SpaceError::Parameters(point));
            }
            member.points.push(point);
            for (levels, level) in member.levels.iter_mut().zip(position) {
                if let Err(at) = levels.binary_search(level) {
                    levels.insert(at, *level);
                }
            }
        }
        members.sort_by_key(|member| member.id);
        Ok(Space { groups, positions, prior, index, members })
    }

    /// Number of points.
    pub fn len(&self) -> usize {
        self.groups.len()
    }

    /// Never: a space has a point.
    pub fn is_empty(&self) -> bool {
        self.groups.is_empty()
    }

    /// A point's group.
    pub fn group(&self, point: usize) -> u16 {
        self.groups[point]
    }

    /// A point's position in each parameter of its group.
    pub fn position(&self, point: usize) -> &[u16] {
        &self.positions[point]
    }

    /// A point's prior.
    pub fn prior(&self, point: usize) -> f64 {
        self.prior[point]
    }

    /// The groups that occur, rising.
    pub fn groups(&self) -> impl Iterator<Item = u16> + '_ {
        self.members.iter().map(|member| member.id)
    }

    /// The points of a group, rising.
    pub fn points_of(&self, group: u16) -> &[usize] {
        self.member(group).map_or(&[], |member| &member.points)
    }

    /// The positions that occur in each parameter of a group, rising.
    pub fn levels_of(&self, group: u16) -> &[Vec<u16>] {
        self.member(group).map_or(&[], |member| &member.levels)
    }

    /// The point of a group at these positions, if it is legal.
    pub fn find(&self, group: u16, position: &[u16]) -> Option<usize> {
        self.index.get(&(group, position.to_vec())).copied()
    }

    /// The legal points that differ from this one in one parameter, by parameter and position.
    pub fn neighbours(&self, point: usize) -> Vec<usize> {
        let group = self.groups[point];
        let mut key = (group, self.positions[point].clone());
        let mut found = Vec::new();
        for (parameter, levels) in self.levels_of(group).iter().enumerate() {
            let own = key.1[parameter];
            for level in levels.iter().filter(|level| **level != own) {
                key.1[parameter] = *level;
                found.extend(self.index.get(&key));
            }
            key.1[parameter] = own;
        }
        found
    }

    fn member(&self, group: u16) -> Option<&Group> {
        let at = self.members.binary_search_by_key(&group, |member| member.id).ok()?;
        Some(&self.members[at])
    }
}
