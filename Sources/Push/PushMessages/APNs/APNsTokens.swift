import Model

/// The tokens with which a node speaks to Apple's push service for one key: one at a time, on all
/// connections.
///
/// Apple wants a token that is neither older than an hour nor changed within 20 minutes. A token's time is a
/// multiple of 40 minutes, so that all nodes change theirs together. A machine without a clock.
public struct APNsTokens: Sendable {
    private struct Token {
        var text: String
        /// Seconds since 1970.
        var issued: Int64
    }
    /// In seconds.
    public struct Bounds: Hashable, Sendable {
        /// Within this time Apple allows no change.
        public var changeMin: Int64 = 1200
        /// After this time the server lets no token count.
        public var ageMax: Int64 = 3300
        /// How long a token lives.
        public var period = APNsSigner.periodSeconds
        public init() {}
    }

    private let bounds: Bounds
    public let signer: APNsSigner
    private var current: Token?
    private var former: Token?
    /// When the present token took the place of another, in seconds since 1970. A common token may have been
    /// older then.
    private var changed: Int64?
    /// When a token was signed outside of the common times, because Apple had found the present one too old.
    private var forced: Int64?
    /// Whether Apple has said that the tokens change too often.
    private var isFormerUsed = false

    #if DEBUG
        public var planted: PlantedInTokens = []
    #endif

    public init(_ signer: APNsSigner, _ bounds: Bounds = Bounds()) {
        self.signer = signer
        self.bounds = bounds
    }

    /// The value of `authorization` for a request that leaves now.
    public mutating func authorization(now: WallTime) throws(PushCryptoError) -> String {
        if isFormerUsed, let former, age(former.issued, now) < bounds.ageMax { return former.text }
        isFormerUsed = false
        let issued = wantedTime(now)
        if let current, current.issued == issued { return current.text }
        let next = Token(text: try signer.authorization(issuedAt: issued), issued: issued)
        if current != nil { changed = now.milliseconds / 1000 }
        former = current
        current = next
        return next.text
    }

    private mutating func wantedTime(_ now: WallTime) -> Int64 {
        #if DEBUG
            if planted.contains(.keepToken), let current { return current.issued }
            if planted.contains(.changeOften) { return now.milliseconds / 1000 - APNsSigner.slackSeconds }
        #endif
        let common = APNsSigner.issuedAt(now, period: bounds.period)
        guard let forced else { return common }
        if forced >= common || (0..<bounds.changeMin).contains(age(forced, now)) { return forced }
        self.forced = nil
        return common
    }

    private func age(_ issued: Int64, _ now: WallTime) -> Int64 { now.milliseconds / 1000 - issued }

    /// Apple answers that this token is too old. True if the same message may go once more immediately, with
    /// the token of `authorization`. False if the token is young, so that a clock is wrong, or if Apple
    /// allows no other token yet.
    public mutating func expired(_ text: String, now: WallTime) -> Bool {
        if isFormerUsed {
            isFormerUsed = false
            return true
        }
        guard let current, current.text == text else { return true }
        guard age(current.issued, now) >= bounds.changeMin else { return false }
        if let changed, (0..<bounds.changeMin).contains(age(changed, now)) { return false }
        forced = now.milliseconds / 1000 - APNsSigner.slackSeconds
        return true
    }

    /// Apple answers that the token changes too often: the previous one is used again while it is young
    /// enough.
    public mutating func changedTooOften(_ text: String, now: WallTime) {
        guard let current, current.text == text, let former, age(former.issued, now) < bounds.ageMax
        else {
            return
        }
        isFormerUsed = true
    }
}
