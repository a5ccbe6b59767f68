import Model

/// Names a message that a loop waits for, and where the message goes.
public struct PushTicket: Hashable, Sendable {
    public var loop: Int
    /// The number that the loop's sender gave the message.
    public var number: UInt64
    public var kind: Transport.Kind
    public var project: ProjectNumber
    /// The service's host or origin, for logs; empty while no service is known.
    public var host: String

    public init(
        loop: Int, number: UInt64, kind: Transport.Kind, project: ProjectNumber, host: String = ""
    ) {
        self.loop = loop
        self.number = number
        self.kind = kind
        self.project = project
        self.host = host
    }
}
