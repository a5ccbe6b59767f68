import Model
import NIOCore

extension TimeAmount {
    /// For timers. NIO counts in 64 bits with a sign: longer lengths become the longest.
    public init(_ length: TimeSpan) { self = .nanoseconds(Int64(clamping: length.nanoseconds)) }
}
