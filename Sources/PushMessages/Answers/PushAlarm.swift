/// What in a push service's answer an operator must look into, beside the message's outcome.
public enum PushAlarm: String, CaseIterable, Sendable {
    /// A token that was never of this app, this environment or this project: a wrong setting, here or in the
    /// app.
    case wrongTarget = "wrong_target"
    /// The service finds a token of the server's too old or too new, which the server has just made.
    case clock
    /// The server has sent what it never should.
    case ownMistake = "own_mistake"
}
