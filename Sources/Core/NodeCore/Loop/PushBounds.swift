import Model

/// The bounds of one loop's limiter.
public struct PushBounds: Hashable, Sendable {
    /// Concurrent messages at one origin of one project, and messages that may wait for that.
    public var atOnce = 64
    public var waitingMax = 64
    /// Concurrent messages at all origins of a project that have never taken one, half of them at one origin.
    /// Clients choose the names of some origins, and one that does not answer holds its place for long.
    public var unprovenAtOnce = 4
    /// For so long after an answer that shows the service well, refusals that may concern one device alone do
    /// not count against the service.
    public var provenFor: TimeSpan = .seconds(60)
    /// How long a message may wait here. Then its partition looks again whether the message is still
    /// to be sent.
    public var waitMax: TimeSpan = .seconds(5)
    /// After this long a partition asks again whether an origin takes more.
    public var fullPause: TimeSpan = .milliseconds(500)
    /// Consecutive failures that open an origin's circuit.
    public var failuresMax = 5
    /// For how long an origin's circuit is open at first, doubled with each further failure, and at most.
    public var pauseMin: TimeSpan = .seconds(1)
    public var pauseMax: TimeSpan = .seconds(300)
    /// After this long a message is tried again at first, doubled with each try, and at most. Apple asks for
    /// 15 minutes after an error at Apple, long for an alert, and Google for 10 s.
    public var webRetryMin: TimeSpan = .seconds(2)
    public var apnsRetryMin: TimeSpan = .seconds(15)
    public var fcmRetryMin: TimeSpan = .seconds(10)
    public var retryMax: TimeSpan = .seconds(3600)
    /// The same for a message that the node itself did not send.
    public var unsentMin: TimeSpan = .seconds(2)
    /// The same for a device that the service throttles.
    public var throttledMin: TimeSpan = .seconds(60)
    /// So many answers that do not explain themselves must have come to a message before the next one may
    /// count as its refusal, and does.
    public var unexplainedMin = 3
    public var unexplainedMax = 300
    /// The longest that a service may ask to wait with the messages of one device.
    public var askedMax: TimeSpan = .seconds(86_400)
    /// The time between two tries while the service refuses the project's key.
    public var credentialsPause: TimeSpan = .seconds(60)
    /// The longest time that the circuit of a browser's service is open after several refused subscriptions
    /// in a row.
    public var webRefusedMax: TimeSpan = .seconds(10)
    /// An answer that a device is gone counts only if the service has taken a message within this time.
    public var wordsProvenFor: TimeSpan = .seconds(3600)
    /// Such a second answer is believed if the service has taken a message so long after the first one: what
    /// was under way with the first one is no evidence.
    public var wordsSettle: TimeSpan = .seconds(5)
    /// Of so many of the newest answers at most half may be such words, each device counted once.
    public var wordsAmong = 32
    /// So many devices in a row of which a proven service says this close the service, and for how long at
    /// most. A service that is not proven closes after `failuresMax`, for `pauseMax` at most.
    public var wordsMax = 16
    public var wordsPauseMax: TimeSpan = .seconds(10)
    /// After this long a message for such a device is tried again at first, doubled with each try, and at
    /// most.
    public var wordRetryMin: TimeSpan = .seconds(10)
    public var wordRetryMax: TimeSpan = .seconds(3600)
    /// After this long a message counts as failed that the shell does not answer.
    public var answerMax: TimeSpan = .seconds(90)

    public init() {}

    func retryMin(_ kind: Transport.Kind) -> TimeSpan {
        switch kind {
        case .web: webRetryMin
        case .apns: apnsRetryMin
        case .fcm: fcmRetryMin
        }
    }
}
