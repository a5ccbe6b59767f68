import Model

/// What in a push service's answer an operator must look into, beside the message's outcome.
public enum PushAlarm: String, CaseIterable, Sendable {
    /// A token that was never of this app, this environment or this project: a wrong setting, here or in the
    /// app.
    case wrongTarget = "wrong_target"
    /// The service finds a token of the server's too old or too new, which the server has just made.
    case clock
    /// The server has sent what it never should.
    case ownMistake = "own_mistake"
    /// The service refuses the project's key, so that messages are held, or given up.
    case credentials
    /// The service says of many devices that they are gone, and nothing confirms this: messages are held.
    case doubted
    /// Answers say nothing about their messages, as a proxy's or a wrong address's: messages are held.
    case unexplained
}

extension PushOutcome {
    /// What the outcome by itself says to an operator, whichever service it comes from. An answer may raise
    /// another alarm with it, which names the reason.
    public var alarm: PushAlarm? {
        switch self {
        case .credentials, .platformKey: .credentials
        case .unexplained: .unexplained
        default: nil
        }
    }
}
