import Glibc
import Journal
import Model
import NodeCore
import Ownership

// A cluster that no node serves begins another life with its next node. So a copy of a database's files,
// which has the same numbers as the original, is another cluster all the same (rule: copies-are-strangers).

extension Generation {
    /// The generation and the life that a node called `name` begins with, before it begins its session. Waits
    /// until another node is seen alive, whose life is the cluster's; otherwise fences what is left of former
    /// nodes, and begins a life. `read` is `Generation.current`.
    package static func settled(
        _ home: any ClusterEngine, name: String, now: () -> MonotonicTime,
        pause: (TimeSpan) -> Void = { usleep(UInt32($0.microseconds)) }, read: () throws -> Standing
    ) throws -> Standing {
        var losses: [Loss] = []
        while true {
            var standing = try read()
            losses += standing.losses
            standing.losses = losses
            guard let stored = try home.get(.setting, key: key), !standing.isNew else { return standing }
            var watch = LeaseWatch(name: name)
            var verdict = LeaseWatch.Verdict.open
            while verdict == .open {
                let asked = now()
                let rows = try home.sessions()
                verdict = watch.look(rows, asked: asked, answered: now())
                if verdict == .open { pause(LeaseWatch.pause) }
            }
            switch verdict {
            case .unserved(let rows):
                let areGone = try rows.allSatisfy { row throws in try home.fence(row.id, at: row.counter) }
                guard areGone else { continue }
                let life = try Catalog.random(lifeBytes)
                guard try replace(stored, life: life, home) else { continue }
                standing.life = life
                standing.fenced = rows.map(\.node)
                return standing
            case .served, .open:
                // A node that begins a life writes it before its session, so the record has it by now.
                if let now = try home.get(.setting, key: key), try holds(standing, in: now) {
                    return standing
                }
            }
        }
    }

    /// Whether `standing` still holds, for a node that has begun its session. A node that saw no session, and
    /// was about to begin a life, finds the record changed by this, and looks again.
    package static func confirms(_ standing: Standing, _ home: any ClusterEngine) throws -> Bool {
        while let stored = try home.get(.setting, key: key) {
            guard try holds(standing, in: stored) else { return false }
            if try replace(stored, life: standing.life, home) { return true }
        }
        return true
    }
}
