import Model

/// The owner that may carry a request out, and until when.
///
/// A gateway asks the next owner again. Meanwhile the request's first copy may be on its way to the previous
/// owner, and that owner may own the partition again when the copy comes. The client, whose second copy was
/// answered, has perhaps asked for the opposite since; the first copy would undo that. So a request names the
/// owner by its epoch, and no owner of another epoch carries it out (rule: named-owner).
public struct RequestGuard: Hashable, Sendable {
    /// The partition's epoch, as the gateway knew it.
    public var epoch: Epoch
    public var deadline: Deadline

    public init(epoch: Epoch, deadline: Deadline) {
        (self.epoch, self.deadline) = (epoch, deadline)
    }

    public enum Standing: Sendable {
        case valid
        /// The request names another epoch: the gateway must ask the present owner.
        case moved
        /// The deadline is past: no owner may carry the request out any more.
        case late
    }

    /// `epoch`: the epoch in which this process serves the partition.
    public func standing(in epoch: Epoch, now: MonotonicTime) -> Standing {
        if deadline.isPast(now: now) { return .late }
        return self.epoch == epoch ? .valid : .moved
    }
}
