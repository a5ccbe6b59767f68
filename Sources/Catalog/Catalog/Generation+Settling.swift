import Journal
import Model
import Ownership

extension Generation {
    /// With which generation and life a node begins, before it begins its session. Waits until another node
    /// is seen alive, whose life is the cluster's; otherwise fences what is left of earlier nodes, and begins
    /// a life. Nodes and simulated clusters drive this machine alike.
    package struct Settling {
        /// A look at the record, and what the leases have shown since.
        private struct Look {
            var standing: Standing
            let stored: [UInt8]?
            var watch: LeaseWatch
        }

        private let name: String
        private var look: Look?
        private var losses: [Loss] = []

        package init(name: String) { self.name = name }

        /// Asks the database, and returns the result. `nil` if nothing is known yet: the next step must come
        /// after `LeaseWatch.pause`. `read` is `Generation.current`. After an error the node must begin again
        /// with another machine.
        package mutating func step(
            _ home: any ClusterEngine, now: () -> MonotonicTime, read: () throws -> Standing
        ) throws -> Standing? {
            while true {
                var look = try look ?? begin(home, read)
                self.look = nil
                guard let stored = look.stored, !look.standing.isNew else {
                    return try finished(look.standing, home)
                }
                let asked = now()
                let rows = try home.sessions()
                switch look.watch.look(rows, asked: asked, answered: now()) {
                case .open:
                    self.look = look
                    return nil
                case .unserved(let rows):
                    let areGone = try rows.allSatisfy { row throws in
                        try home.fence(row.id, at: row.counter)
                    }
                    guard areGone else { continue }
                    let life = try Catalog.random(lifeBytes)
                    guard try replace(stored, life: life, home) else { continue }
                    look.standing.life = life
                    look.standing.fenced = rows.map(\.node)
                    return try finished(look.standing, home)
                case .served:
                    // A node that begins a life writes it before its session, so the record has it by now.
                    guard let now = try home.get(.setting, key: key), try holds(look.standing, in: now)
                    else { continue }
                    look.standing.isServed = true
                    return try finished(look.standing, home)
                }
            }
        }

        private mutating func begin(_ home: any ClusterEngine, _ read: () throws -> Standing) throws -> Look {
            var standing = try read()
            losses += standing.losses
            standing.losses = losses
            return Look(
                standing: standing, stored: try home.get(.setting, key: key), watch: LeaseWatch(name: name))
        }

        private func finished(_ standing: Standing, _ home: any ClusterEngine) throws -> Standing {
            var standing = standing
            standing.formers = try FormerLives.read(home)
            return standing
        }
    }
}
