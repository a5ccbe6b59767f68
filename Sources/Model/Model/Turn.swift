/// One call into a machine: the time of the call, and the effects that the call makes.
///
/// A machine makes one turn for each call and passes it down. A second turn must not be made within a call,
/// because its effects would leave before those of the first.
public struct Turn<Time, Effect> {
    public let now: Time
    /// The caller's array itself. A copy would make the first append copy all effects before it.
    public var effects: [Effect] = []

    /// Takes the caller's array. The caller must get the array back with `end`.
    @inlinable
    public init(at now: Time, _ effects: inout [Effect]) {
        self.now = now
        swap(&self.effects, &effects)
    }

    @inlinable
    public mutating func end(_ effects: inout [Effect]) { swap(&self.effects, &effects) }
}
