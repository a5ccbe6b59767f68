import Model
import Ownership
import StoryTelling
import Testing

/// The stories in `Stories` tell how partitions change their owners.
@Suite("Stories of takeover") struct OwnershipStories {
    static let stories = Stories()

    @Test("go as they are told", arguments: stories.names)
    func told(_ name: String) throws {
        try OwnershipStories.stories.expect(name) { text in
            let told = try ToldOwnership()
            let seen = try Stories.play(text) { try told.perform($0) }
            #expect(told.violations.isEmpty)
            return seen
        }
    }

    @Test("are there: this suite is not green for want of stories")
    func areThere() { #expect(OwnershipStories.stories.names.count >= 5) }
}

/// Plays the lines of a story in a world of nodes around one engine.
///
/// `nodes 3 partitions 4` starts node-0, node-1 and node-2. `node-1 dies`, `node-1 starts`, `node-1 leaves`,
/// `node-1 sleeps 9s`. `gossip between node-0 and node-1 node-2 is cut`, or `heals`. `messages are lost`
/// (between nodes). `commits take 300ms` (longer). `run 5s`; `run 8s unseen` tells nothing. `look` says which
/// node serves which partitions.
private final class ToldOwnership {
    private var world: OwnershipWorld
    private var teller: Teller
    /// Each session that there was, by the name of its node.
    private var names: [SessionID: String] = [:]

    init() throws {
        world = try OwnershipWorld(seed: 1)
        teller = Teller(began: world.now)
    }

    var violations: [String] { world.violations }

    func perform(_ words: [String]) throws -> [String] {
        switch words[0] {
        case "nodes": try setUp(nodes: Int(words[1]) ?? 0, partitions: Int(words[3]) ?? 0)
        case "gossip": gossip(words)
        case "messages": world.isSpeechless = true
        case "commits": world.slowness = Stories.length(words[2]) ?? .zero
        case "run":
            world.run(for: Stories.length(words[1]) ?? .zero)
            let told = teller.drain()
            return words.last == "unseen" ? [] : told
        case "look": return look()
        default: return try act(words)
        }
        return []
    }

    private func setUp(nodes: Int, partitions: Int) throws {
        world = try OwnershipWorld(seed: 1, partitions: partitions)
        world.onEffect = { [unowned self] in note($0, $1) }
        world.onEvent = { [unowned self] in note($0, $1) }
        for number in 0..<nodes { try start("node-\(number)") }
    }

    private func start(_ name: String) throws {
        let node = try world.start(name)
        names[world.nodes[node].machine.session] = name
    }

    private func act(_ words: [String]) throws -> [String] {
        if words[1] == "starts" {
            try start(words[0])
            return []
        }
        guard let node = world.nodes.firstIndex(where: { $0.name == words[0] }) else {
            return ["what is \(words[0])?"]
        }
        switch words[1] {
        case "dies": world.crash(node)
        case "leaves": world.tell(node, world.runs[node], .leave)
        case "sleeps": world.nodes[node].asleepUntil = world.now + (Stories.length(words[2]) ?? .zero)
        default: return ["what is \(words[1])?"]
        }
        return []
    }

    private func gossip(_ words: [String]) {
        let sides = words.dropFirst(2).split(separator: "and").map { side in
            side.compactMap { name in world.nodes.firstIndex { $0.name == name } }
        }
        for left in sides[0] {
            for right in sides[1] {
                for (observer, subject) in [(left, right), (right, left)] {
                    let session = world.nodes[subject].machine.session
                    world.tell(observer, world.runs[observer], .suspected(session, words.last == "cut"))
                }
            }
        }
    }

    private func look() -> [String] {
        let lines = world.nodes.filter(\.isUp).map { node in
            let numbers = node.serving.keys.sorted().map { "\($0.rawValue)" }
            let verb = node.asleepUntil > world.now ? "sleeps, and remembers" : "serves"
            return "\(node.name) \(verb) \(Teller.list("partition", numbers))"
        }
        return lines + world.unserved.map { "no node serves partition \($0.rawValue)" }
    }

    // MARK: What is told

    private func name(_ session: SessionID) -> String { names[session] ?? "session \(session.rawValue)" }

    private func tell(_ node: Int, _ deed: String, _ partition: PartitionID? = nil) {
        let actor = world.nodes[node].name
        if let partition {
            teller.tell(world.now, actor, deed, "partition", "\(partition.rawValue)")
        } else {
            teller.tell(world.now, actor, deed)
        }
    }

    private func note(_ node: Int, _ effect: Ownership.Effect) {
        names[world.nodes[node].machine.session] = world.nodes[node].name
        switch effect {
        case .fence(let session, let counter):
            tell(node, "fences \(name(session)), whose lease stands at \(counter)")
        case .takeOver(let row):
            let owner = row.owner.map { "whose owner \(name($0)) is dead" } ?? "which has no owner"
            tell(node, "asks the database for {}, \(owner)", row.id)
        case .load(let id, let epoch, _):
            tell(node, "owns {} in epoch \(epoch.rawValue), and reads the journal", id)
        case .release(let id): tell(node, "stops serving {}, and gives up the ownership", id)
        case .offer(let id, let heir): tell(node, "tells its heir \(name(heir)) of {}", id)
        case .follow(let id): tell(node, "reads {} ahead, while the owner still serves", id)
        case .tellFollowed(let id, let owner): tell(node, "tells \(name(owner)) that it has read {}", id)
        case .unfollow(let id): tell(node, "throws away what it read of {}", id)
        case .drop(let id): tell(node, "throws away {}: another node is the owner", id)
        case .stepDown: tell(node, "finds its own session dead, throws all away, and begins a new session")
        case .status(.serving): tell(node, "is ready")
        case .status(.cutOff): tell(node, "sees less than half of the nodes, and is cut off")
        case .status(.unreachable(let reason)): tell(node, "is not ready: \(reason)")
        case .left: tell(node, "has nothing left, and ends")
        case .status, .poll, .routes, .members, .strangers, .nudge, .wake: break
        }
    }

    private func note(_ node: Int, _ event: Ownership.Event) {
        switch event {
        case .suspected(let session, let isGone):
            tell(node, "hears from gossip that \(name(session)) is \(isGone ? "dead" : "back")")
        case .fenced(let session): tell(node, "hears from the database that \(name(session)) is fenced")
        case .fenceFailed(let session):
            tell(node, "hears from the database that \(name(session)) has renewed its lease: no fence")
        case .taken(let id, nil): tell(node, "hears from the database that another node has taken {}", id)
        case .serving(let id): tell(node, "serves {}", id)
        case .released(let id): tell(node, "hears from the database that {} has no owner now", id)
        default: break
        }
    }
}
