import Membership
import Model
import Simulator
import StoryTelling

/// Plays a story: lines that say what happens, and behind each line the results, in lines that begin with
/// ">".
///
/// `nodes 5` starts a, b, c, … which all know a. `start f`, `kill c`, `leave c`, `sleep c 3s`, `slow c 475`
/// (milliseconds of each half second), `cut a > b` (one way), `cut a b`, `split a b | c d`, `heal`, `loss 50`
/// (of a thousand), `doubled 50`, `delay 5ms` (at most), `tell a 7 3 9` (an entry: key, version, value), `run
/// 5s`, `seed 4`. Three lines have results: `views` (each node's view), `changes` (since the last look),
/// `entry 7`.
struct StoryTeller {
    private var world = GossipWorld(seed: 1)
    private var began = MonotonicTime.zero
    private let options: Membership.Options

    init(options: Membership.Options = Membership.Options()) {
        self.options = options
        began = world.now
    }

    /// The story with the results of this run.
    static func play(_ text: String) -> String {
        var teller = StoryTeller()
        return Stories.play(text) { teller.perform($0[0], Array($0.dropFirst())) }
    }

    private mutating func perform(_ verb: String, _ words: [String]) -> [String] {
        switch verb {
        case "seed": world = GossipWorld(seed: UInt64(words[0]) ?? 1, options: options)
        case "nodes":
            for number in 0..<(Int(words[0]) ?? 0) { world.start(StoryTeller.name(number), seeds: ["a"]) }
        case "start": world.start(words[0], seeds: ["a"])
        case "kill": each(words) { world.kill($0) }
        case "leave": each(words) { world.leave($0) }
        case "sleep": each([words[0]]) { world.sleep($0, for: StoryTeller.length(words[1])) }
        case "slow": each([words[0]]) { world.slow($0, sleeping: .milliseconds(UInt64(words[1]) ?? 0)) }
        case "cut" where words.contains(">"): cut([words[0]], [words[2]])
        case "cut":
            cut([words[0]], [words[1]])
            cut([words[1]], [words[0]])
        case "split":
            let sides = words.split(separator: "|").map(Array.init)
            cut(sides[0], sides[1])
            cut(sides[1], sides[0])
        case "heal": world.healAll()
        case "loss": world.network.lost = UInt64(words[0]) ?? 0
        case "doubled": world.network.doubled = UInt64(words[0]) ?? 0
        case "delay": world.network.delayMax = StoryTeller.length(words[0])
        case "tell":
            each([words[0]]) {
                world.publish(
                    .init(
                        key: UInt32(words[1]) ?? 0, version: UInt64(words[2]) ?? 0,
                        value: UInt64(words[3]) ?? 0), at: $0)
            }
        case "run": world.run(for: StoryTeller.length(words[0]))
        case "views": return views()
        case "changes": return changes()
        case "entry": return entry(UInt32(words[0]) ?? 0)
        default: return ["what is \(verb)?"]
        }
        return []
    }

    private func each(_ names: [String], _ body: (Int) -> Void) {
        for name in names { if let node = world.node(named: name) { body(node) } }
    }

    private func cut(_ from: [String], _ to: [String]) {
        each(from) { one in each(to) { world.cut(from: one, to: $0) } }
    }

    static func name(_ number: Int) -> String {
        number < 26 ? String(UnicodeScalar(UInt8(97 + number))) : "n\(number)"
    }

    private static func length(_ text: String) -> TimeSpan { Stories.length(text) ?? .zero }

    // MARK: What is seen

    private func living() -> [Int] { (0..<world.count).filter { world.isUp($0) } }

    private func views() -> [String] {
        var observers: [String: [String]] = [:]
        for node in living() {
            // A node's view includes the node, so that nodes that agree say the same.
            let others = world.view(node) + [(world.name(node), .alive)]
            let text = others.sorted { $0.name < $1.name }.map { member in
                member.state == .alive ? member.name : "\(member.name)(\(member.state))"
            }
            observers[text.joined(separator: " "), default: []].append(world.name(node))
        }
        return observers.map { "\($0.value.joined(separator: " ")): \($0.key)" }.sorted()
    }

    private func changes() -> [String] {
        var lines: [(MonotonicTime, String)] = []
        var groups: [String: [GossipWorld.Change]] = [:]
        for change in world.changes {
            groups["\(change.subject) \(change.state)", default: []].append(change)
        }
        for (what, group) in groups {
            let first = group.map(\.time).min() ?? .zero
            let last = group.map(\.time).max() ?? .zero
            let who = Set(group.map { world.name($0.observer) }).sorted().joined(separator: " ")
            let times = group.count > Set(group.map(\.observer)).count ? ", \(group.count) times" : ""
            lines.append((first, "\(what) for \(who), \(seconds(first)) to \(seconds(last))\(times)"))
        }
        for (time, node, isAlone) in world.isolations {
            lines.append((time, "\(world.name(node)) is \(isAlone ? "cut off" : "back"), \(seconds(time))"))
        }
        world.forgetChanges()
        return lines.sorted { $0 < $1 }.map(\.1)
    }

    private func entry(_ key: UInt32) -> [String] {
        var holders: [String: [String]] = [:]
        for node in living() {
            let text = world.entry(key, at: node).map { "\($0.value) of version \($0.version)" } ?? "nothing"
            holders[text, default: []].append(world.name(node))
        }
        return holders.map { "\($0.value.joined(separator: " ")): \($0.key)" }.sorted()
    }

    private func seconds(_ time: MonotonicTime) -> String {
        let tenths = time.since(began) / .milliseconds(100)
        return "\(tenths / 10).\(tenths % 10) s"
    }
}
