import Model

/// By which owner, and until when, a request may be carried out.
///
/// A request is asked again of whoever is owner next. Its first copy may lie on the way to the owner of
/// before meanwhile, and that one may be owner anew when it comes: the copy that was answered was perhaps
/// followed by its opposite, which the old one would undo. So a request names the owner by its epoch, and is
/// nobody else's.
public struct Mandate: Hashable, Sendable {
    /// The partition's, as the gateway knew it.
    public var epoch: Epoch
    public var deadline: Deadline

    public init(epoch: Epoch, deadline: Deadline) {
        (self.epoch, self.deadline) = (epoch, deadline)
    }

    public enum Standing: Sendable {
        case valid
        /// To be asked of the owner of today.
        case moved
        /// Nobody may do it any more.
        case late
    }

    /// `epoch`: in which the partition is served here.
    public func standing(in epoch: Epoch, now: MonotonicTime) -> Standing {
        if deadline.isPast(now: now) { return .late }
        return self.epoch == epoch ? .valid : .moved
    }
}
