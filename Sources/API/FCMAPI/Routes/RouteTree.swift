import HTTPMessages

/// Finds a path's row of the table, with one comparison for each segment that may come there. A search
/// allocates nothing. Literal segments come before verbs, and verbs before other parameters.
struct RouteTree: Sendable {
    private enum Kind: Int { case literal, verb, parameter }

    private struct Node {
        var kind: Kind
        /// The segment, or the verb with its colon: the bytes of `path` in `range`.
        var path: StaticString = ""
        var range = 0..<0
        /// Indices of nodes, or -1.
        var child = -1
        var next = -1
        /// Indices of rows by method, or -1.
        var routes = InlineArray<5, Int16>(repeating: -1)
    }

    private let routes: [Route]
    private var nodes = [Node(kind: .literal)]

    init(_ routes: [Route]) {
        self.routes = routes
        for (index, route) in routes.enumerated() {
            var node = 0
            for (kind, range) in RouteTree.segments(of: route.path) {
                node = child(of: node, kind, route.path, in: range)
            }
            precondition(
                nodes[node].routes[route.method.rawValue] < 0, "\(route.path) is twice in the table")
            nodes[node].routes[route.method.rawValue] = Int16(index)
        }
    }

    /// The row of the request's method and path, and how many bytes the verb at the path's end has.
    func find(_ target: Target, _ method: HTTPMethod) -> (route: Route, verbLength: Int)? {
        guard target.count > 0 else { return nil }
        let row: Route.Method =
            switch method {
            case .get, .head: .get
            case .post: .post
            case .patch: .patch
            case .delete: .delete
            default: .others
            }
        let slot = row.rawValue
        return nodes.withUnsafeBufferPointer { nodes in
            let index = RouteTree.find(target, slot, at: 0, below: 0, among: nodes)
            guard index >= 0 else { return nil }
            let node = nodes[index]
            let route = node.routes[slot] >= 0 ? node.routes[slot] : node.routes[RouteTree.others]
            return (routes[Int(route)], node.kind == .verb ? node.range.count : 0)
        }
    }

    private static let others = Route.Method.others.rawValue

    /// The index of the node at which the target ends, below the node `parent`, if it has a row; or -1.
    private static func find(
        _ target: Target, _ slot: Int, at depth: Int, below parent: Int,
        among nodes: UnsafeBufferPointer<Node>
    ) -> Int {
        if depth == target.count {
            return nodes[parent].routes[slot] >= 0 || nodes[parent].routes[others] >= 0 ? parent : -1
        }
        var index = nodes[parent].child
        while index >= 0 {
            let node = nodes[index]
            let isMatch =
                switch node.kind {
                case .literal: target.ends(depth, with: node.path, node.range, isWhole: true)
                case .verb:
                    depth == target.count - 1
                        && target.ends(depth, with: node.path, node.range, isWhole: false)
                case .parameter: true
                }
            if isMatch {
                let found = find(target, slot, at: depth + 1, below: index, among: nodes)
                if found >= 0 { return found }
            }
            index = node.next
        }
        return -1
    }

    private mutating func child(
        of parent: Int, _ kind: Kind, _ path: StaticString, in range: Range<Int>
    ) -> Int {
        func text(_ path: StaticString, _ range: Range<Int>) -> Substring {
            path.description.dropFirst(range.lowerBound).prefix(range.count)
        }
        var before = -1
        var node = nodes[parent].child
        while node >= 0, nodes[node].kind.rawValue <= kind.rawValue {
            if nodes[node].kind == kind, text(nodes[node].path, nodes[node].range) == text(path, range) {
                return node
            }
            before = node
            node = nodes[node].next
        }
        nodes.append(Node(kind: kind, path: path, range: range, next: node))
        if before < 0 { nodes[parent].child = nodes.count - 1 } else { nodes[before].next = nodes.count - 1 }
        return nodes.count - 1
    }

    /// `/a/{b}:c` has the literal `a` and the verb `:c`.
    private static func segments(of path: StaticString) -> [(Kind, Range<Int>)] {
        var found: [(Kind, Range<Int>)] = []
        var start = 1
        for index in 1...path.utf8CodeUnitCount
        where index == path.utf8CodeUnitCount || path.utf8Start[index] == UInt8(ascii: "/") {
            let brace = (start..<index).first { path.utf8Start[$0] == UInt8(ascii: "}") }
            let from = brace.map { $0 + 1 } ?? start
            let kind: Kind = brace == nil ? .literal : from == index ? .parameter : .verb
            found.append((kind, from..<index))
            start = index + 1
        }
        return found
    }
}
