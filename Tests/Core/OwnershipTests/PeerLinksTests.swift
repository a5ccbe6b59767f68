import Model
import Testing

@testable import Ownership

private func at(_ seconds: UInt64) -> MonotonicTime { MonotonicTime(.seconds(seconds + 100)) }

private func member(_ session: UInt64, _ name: String, isShard: Bool = true) -> Ownership.Member {
    Ownership.Member(
        session: SessionID(session), name: name,
        info: .init(isShard: isShard, isGateway: true, peer: "10.0.0.\(session):8788"))
}

private func routes(_ owners: UInt64?...) -> [Ownership.Route?] {
    owners.map { $0.map { Ownership.Route(session: SessionID($0), epoch: Epoch(1)) } }
}

@Suite("Links to peers") struct PeerLinksTests {
    private func links(_ peers: UInt64...) -> PeerLinks {
        var links = PeerLinks()
        links.setPeers(peers.map { SessionID($0) })
        return links
    }

    @Test("are told once a minute while they stay down, and once when they are back")
    func staysDown() {
        var links = links(2)
        var told: [UInt64] = []
        for moment in UInt64(0)..<150 {
            let news = links.failed(2, loop: Int(moment % 2), reason: "Connection refused", now: at(moment))
            if news == .isDown(SessionID(2), reason: "Connection refused") { told.append(moment) }
        }
        #expect(told == [0, 60, 120])
        #expect(links.down == [.init(peer: SessionID(2), since: at(0), reason: "Connection refused")])
        #expect(links.stands(2, loop: 0, now: at(151)) == nil, "the other loop has no connection yet")
        #expect(!links.isUp(SessionID(2)))
        #expect(
            links.stands(2, loop: 1, now: at(152))
                == .isUpAgain(SessionID(2), down: .seconds(152)))
        #expect(links.isUp(SessionID(2)) && links.down.isEmpty)
    }

    @Test("are told once a minute while they flap")
    func flapping() {
        var links = links(2)
        var lines = 0
        for moment in stride(from: UInt64(0), to: 600, by: 2) {
            links.broke(2, loop: 0, now: at(moment))
            if links.failed(2, loop: 0, reason: "reset", now: at(moment)) != nil { lines += 1 }
            if links.stands(2, loop: 0, now: at(moment + 1)) != nil { lines += 1 }
        }
        #expect(lines == 20)
    }

    @Test("are not told where a broken connection is replaced at once")
    func replaced() {
        var links = links(2)
        _ = links.stands(2, loop: 0, now: at(0))
        links.broke(2, loop: 0, now: at(1))
        #expect(links.down.map(\.reason) == ["the connection ended"])
        #expect(links.stands(2, loop: 0, now: at(2)) == nil && links.down.isEmpty)
    }

    @Test("are forgotten with a peer that is no member any more")
    func noMember() {
        var links = links(2, 3)
        _ = links.failed(2, loop: 0, reason: "refused", now: at(0))
        links.setPeers([SessionID(3)])
        #expect(links.down.isEmpty && links.failed(2, loop: 0, reason: "refused", now: at(90)) == nil)
    }

    // MARK: Whether the node is able

    private let three = [member(1, "gateway", isShard: false), member(2, "shard-1"), member(3, "shard-2")]

    @Test("are named with their reasons where a gateway reaches no owner")
    func noOwner() {
        var links = links(2, 3)
        let before = links.inability(
            routes: routes(2, 3), members: three, own: SessionID(1), now: at(0))
        #expect(before?.contains("shard-1 (10.0.0.2:8788): not connected yet") == true)
        _ = links.failed(2, loop: 0, reason: "Connection refused", now: at(0))
        _ = links.failed(3, loop: 0, reason: "no answer in 2 s", now: at(0))
        let reason = links.inability(routes: routes(2, 3), members: three, own: SessionID(1), now: at(1))
        #expect(
            reason == "no connection to any other owner of partitions: shard-1 (10.0.0.2:8788):"
                + " Connection refused; shard-2 (10.0.0.3:8788): no answer in 2 s")
        _ = links.stands(3, loop: 0, now: at(2))
        #expect(
            links.inability(routes: routes(2, 3), members: three, own: SessionID(1), now: at(2)) == nil,
            "one owner is enough")
    }

    @Test("may be gone to the last owner for a few seconds")
    func shortLoss() {
        var links = links(2)
        _ = links.stands(2, loop: 0, now: at(0))
        func inability(_ time: UInt64) -> String? {
            links.inability(routes: routes(2), members: three, own: SessionID(1), now: at(time))
        }
        #expect(inability(0) == nil)
        links.broke(2, loop: 0, now: at(1))
        #expect(inability(1) == nil && inability(4) == nil)
        #expect(inability(5)?.contains("the connection ended") == true)
        _ = links.stands(2, loop: 0, now: at(6))
        #expect(inability(6) == nil)
    }

    @Test("are not needed by a node that owns everything")
    func ownsAll() {
        var links = links(2)
        _ = links.failed(2, loop: 0, reason: "refused", now: at(0))
        #expect(links.inability(routes: routes(1, nil), members: three, own: SessionID(1), now: at(0)) == nil)
        #expect(
            links.inability(routes: routes(1, 2), members: three, own: SessionID(1), now: at(9)) != nil,
            "a node that owns some partitions needs another owner where there is one")
    }

    @Test("leave a gateway unready where there is no shard, or no partition has an owner")
    func noShards() {
        var links = links(2)
        let gateways = [member(1, "one", isShard: false), member(2, "two", isShard: false)]
        func inability(_ members: [Ownership.Member], _ time: UInt64) -> String? {
            links.inability(routes: routes(nil, nil), members: members, own: SessionID(1), now: at(time))
        }
        #expect(inability(gateways, 0)?.contains("no shard") == true)
        #expect(inability(three, 0) == "no partition has an owner yet")
        var leaving = member(3, "shard")
        leaving.info.isLeaving = true
        #expect(inability(gateways + [leaving], 0)?.contains("no shard") == true)
        #expect(links.inability(routes: [], members: gateways, own: SessionID(1), now: at(0)) == nil)
    }

    @Test("are named in a sentence that names a few only")
    func theSentenceNamesAFewOnly() {
        let peers = (UInt64(2)...40).map { member($0, "shard-\($0)") }
        var links = PeerLinks()
        links.setPeers(peers.map(\.session))
        for peer in peers {
            let reason = String(repeating: "x", count: 900)
            _ = links.failed(peer.session.processID, loop: 0, reason: reason, now: at(0))
        }
        let owned = peers.map { Ownership.Route?(.init(session: $0.session, epoch: Epoch(1))) }
        let reason = links.inability(routes: owned, members: peers, own: SessionID(1), now: at(0)) ?? ""
        #expect(reason.contains("and 36 more") && reason.utf8.count < 900)
    }
}

@Suite("A limit of log lines") struct LogLimitTests {
    @Test("lets so many lines a minute pass for each key, and counts the rest")
    func soManyLinesAMinutePass() {
        var limit = LogLimit<String>(linesMax: 2)
        let passed = (UInt64(0)..<130).compactMap { time in
            limit.pass("a", now: at(time)).map { "\(time):\($0)" }
        }
        #expect(passed == ["0:0", "1:0", "60:58", "61:0", "120:58", "121:0"])
        #expect(limit.pass("b", now: at(130)) == 0)
    }

    @Test("tells of a few names that strangers invent, and how many others there are")
    func names() {
        var limit = NameLimit<String>()
        let first = (0..<300).compactMap { limit.pass("a", name: "w\($0 % 100)", now: at(UInt64($0 / 10))) }
        #expect(first == [.init(), .init(), .init(), .init()])
        #expect(limit.pass("b", name: "w7", now: at(31)) == .init())
        #expect(limit.pass("a", name: "w7", now: at(59)) == nil)
        #expect(limit.pass("a", name: "w7", now: at(60)) == .init(lines: 297, names: 95))
        #expect(limit.pass("a", name: "w8", now: at(61)) == .init())
        #expect(limit.pass("a", name: "w8", now: at(62)) == nil)
        #expect(limit.pass("a", name: "w9", now: at(63)) == .init(lines: 1, names: 0))
        for number in 0..<5000 { _ = limit.pass("a", name: "x\(number)", now: at(64)) }
        #expect(limit.pass("a", name: "y", now: at(130)) == .init(lines: 4999, names: 1000))
    }

    @Test("keeps a bounded number of keys")
    func keysAreBounded() {
        var limit = LogLimit<Int>()
        let passed = (0..<10_000).count { limit.pass($0, now: at(0)) != nil }
        #expect(passed == 4096)
        #expect(limit.pass(10_000, now: at(60)) == 0)
    }
}
