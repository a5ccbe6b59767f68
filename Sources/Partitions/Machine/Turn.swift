import Model

/// One call into a machine: the time of the call, and the effects that the call makes.
///
/// `start`, `handle` and `flush` each make one turn and pass it down. A second turn must not be made within a
/// call, because its effects would leave before those of the first.
struct Turn {
    /// The time of the call, with the believed wall time.
    let now: Instant
    /// The caller's array itself. A copy would make the first append copy all effects before it.
    var effects: [PartitionEffect] = []

    /// Takes the caller's array. The caller must get the array back with `end`.
    init(at now: Instant, _ effects: inout [PartitionEffect]) {
        self.now = now
        swap(&self.effects, &effects)
    }

    mutating func end(_ effects: inout [PartitionEffect]) { swap(&self.effects, &effects) }
}
