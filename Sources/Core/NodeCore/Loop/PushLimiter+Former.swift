import Model
import Partitions

// Settings that change while messages are under way (rule: former-keys-say-nothing).

extension PushLimiter {
    /// An operator has changed how these projects reach push services: what was known of the services counts
    /// no more, and what is under way left under the earlier settings.
    mutating func reopen(_ projects: Set<ProjectNumber>) {
        for origin in origins.keys.sorted() where projects.contains(origin.project) {
            origins[origin]?.failures = 0
            origins[origin]?.provenAt = nil
            let words = freshWords()
            origins[origin]?.words = words
            origins[origin]?.pausedUntil = nil
            origins[origin]?.refusesKey = false
            origins[origin]?.pause = .zero
            origins[origin]?.quotaUntil = nil
            if origins[origin]?.isIdle ?? true { origins[origin] = nil }
        }
        for (number, known) in underWay where projects.contains(known.origin.project) {
            underWay[number]?.isFormer = true
        }
    }

    /// Whether the answer is no evidence about the origin as the project uses it now.
    func isOfFormer(_ known: UnderWay) -> Bool {
        #if DEBUG
            if planted.contains(.believeFormer) { return false }
        #endif
        return known.isFormer
    }
}

extension PushOutcome {
    /// Whether the outcome may be another one under another key or account: an address may belong to another
    /// project of the same service.
    var isOfKey: Bool {
        switch self {
        case .gone, .credentials, .unexplained, .platformKey, .unset, .overQuota: true
        case .accepted, .refusedContent, .throttled, .transient, .formerEnd, .unsent, .expired: false
        }
    }
}
