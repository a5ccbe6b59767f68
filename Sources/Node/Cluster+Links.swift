import Model
import Ownership
import PeerLink

// What is known of the connections to other nodes, and whether this node can serve. On the cluster's event
// loop.

extension Cluster {
    /// From any thread: what became of a connection that one of the loops makes.
    func link(_ life: UInt32, _ loop: Int, _ report: PeerEvents.Report) {
        perform {
            let now = Clock.monotonic()
            switch report {
            case .stands: self.tell(self.links.stands(life, loop: loop, now: now))
            case .broke: self.links.broke(life, loop: loop, now: now)
            case .failed(let reason):
                self.tell(self.links.failed(life, loop: loop, reason: reason, now: now))
            }
            self.publishLinks()
            self.tellReadiness()
        }
    }

    private func tell(_ news: PeerLinks.News?) {
        switch news {
        case .isDown(let session, let reason):
            // Whoever leaves in order ends its connections: that is no failure.
            let isLeaving = member(session)?.info.isLeaving ?? false
            log.log(
                level: isLeaving ? .debug : .warning, "a node cannot be reached over TCP",
                metadata: [
                    "node": "\(name(of: session))", "address": "\(address(of: session))",
                    "reason": "\(reason)",
                ])
        case .isUpAgain(let session, let nanoseconds):
            log.notice(
                "a node is reached again",
                metadata: ["node": "\(name(of: session))", "seconds": "\(nanoseconds / .seconds(1))"])
        case nil: break
        }
    }

    private func member(_ session: SessionID) -> Ownership.Member? { members.first { $0.session == session } }
    private func name(of session: SessionID) -> String { member(session)?.name ?? "\(session.rawValue)" }
    private func address(of session: SessionID) -> String { member(session)?.info.peer ?? "" }

    /// Ready is who is so by its leases and partitions, and could serve something.
    func tellReadiness() {
        let inability = links.inability(
            routes: routes, members: members, own: shared.session, now: Clock.monotonic())
        if let standing {
            // Who joins waits for owners: where there can be none, that says more.
            let isJoining = standing == Cluster.joining
            return shared.become(notReady: isJoining ? inability ?? standing : standing)
        }
        if let inability {
            if wasAble { log.warning("not ready", metadata: ["reason": "\(inability)"]) }
            wasAble = false
        } else if !wasAble {
            log.notice("ready")
            wasAble = true
        }
        shared.become(notReady: inability)
    }
}
