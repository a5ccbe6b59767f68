import Model

/// What a client for push services says of one request.
public enum PushResult: Hashable, Sendable {
    /// The service sent a whole answer. `retryAfter` is the field of that name.
    case answered(status: Int, retryAfter: String?, body: [UInt8])
    /// The service was not reached, or did not answer.
    case unanswered
    /// The request had no turn in the client. The text is for an operator.
    case notTried(String)
    /// The node did not make the request, or must not send it any more. The text is for an operator.
    case notMade(String)
    /// The message's time at the service was over before the request could leave.
    case expired
}

extension AccessTokenAnswer {
    /// What the token's host says by the result of a request. A request that the node could not make counts
    /// as failed: made again immediately, it would fail again.
    public init(_ result: PushResult, now: WallTime) {
        switch result {
        case .answered(let status, let retryAfter, let body):
            self.init(status: status, body: body, retryAfter: retryAfter, now: now)
        case .notTried(let reason): self = .notTried(reason)
        case .unanswered, .notMade, .expired: self = .failed(retryAfterSeconds: nil)
        }
    }
}
