import Model

/// The other nodes: by session, by name, and in the order in which they are probed.
struct Roster: Sendable {
    var members: [SessionID: Membership.Member] = [:]
    private(set) var latest: [String: SessionID] = [:]
    /// All members in the order of their probes; `next` passes over members that are dead or have left.
    private(set) var round: [SessionID] = []
    var position = 0
    private(set) var deadCount = 0
    /// How many members have left.
    private(set) var goneCount = 0

    var count: Int { members.count }
    var all: [Membership.Member] { members.values.sorted { $0.session.rawValue < $1.session.rawValue } }

    subscript(_ session: SessionID) -> Membership.Member? { members[session] }

    /// The newest process of that name.
    func session(named name: String) -> SessionID? { latest[name] }

    mutating func insert(_ member: Membership.Member, _ random: inout SeededGenerator) {
        members[member.session] = member
        latest[member.name] = member.session
        // At a random position in the rest of the round: else all nodes would probe newcomers in one order.
        round.insert(member.session, at: Int.random(in: position...round.count, using: &random))
    }

    mutating func update(_ member: Membership.Member) {
        count(members[member.session]?.state, -1)
        count(member.state, 1)
        members[member.session] = member
    }

    private mutating func count(_ state: Membership.State?, _ change: Int) {
        if state == .dead { deadCount += change }
        if state == .left { goneCount += change }
    }

    mutating func remove(_ session: SessionID) {
        guard let member = members.removeValue(forKey: session) else { return }
        count(member.state, -1)
        if latest[member.name] == session { latest[member.name] = nil }
        if let index = round.firstIndex(of: session) {
            round.remove(at: index)
            if index < position { position -= 1 }
        }
    }

    private func isThere(_ session: SessionID) -> Bool {
        switch members[session]?.state {
        case .alive, .suspect: true
        case .dead, .left, nil: false
        }
    }

    /// The member to probe next.
    mutating func next(_ random: inout SeededGenerator) -> Membership.Member? {
        for _ in 0..<max(1, round.count * 2) {
            if position >= round.count {
                position = 0
                round.shuffle(using: &random)
            }
            guard position < round.count else { return nil }
            let session = round[position]
            position += 1
            if isThere(session) { return members[session] }
        }
        return nil
    }

    /// Up to `count` living members, drawn at random.
    func someAlive(_ count: Int, except: SessionID?, _ random: inout SeededGenerator) -> [Membership.Member] {
        guard !round.isEmpty else { return [] }
        var found: [Membership.Member] = []
        // Most members are alive: a few draws find them. A walk from a random position finds the last ones.
        for _ in 0..<count * 3 where found.count < count {
            let session = round[Int.random(in: 0..<round.count, using: &random)]
            guard session != except, let member = members[session], member.state == .alive,
                !found.contains(where: { $0.session == session })
            else { continue }
            found.append(member)
        }
        let start = Int.random(in: 0..<round.count, using: &random)
        for step in 0..<round.count where found.count < count {
            let session = round[(start + step) % round.count]
            guard session != except, let member = members[session], member.state == .alive,
                !found.contains(where: { $0.session == session })
            else { continue }
            found.append(member)
        }
        return found
    }

    func isReached(_ address: String) -> Bool {
        members.values.contains { $0.address == address && ($0.state == .alive || $0.state == .suspect) }
    }
}
