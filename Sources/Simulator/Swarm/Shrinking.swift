import Model

extension SwarmDraw {
    /// What a run breaks: the guarantee and the beginning of the sentence, without its numbers.
    public static func broken(_ options: Options) -> Set<String> {
        Set(
            ClusterSimulation(options).run().violations.map { violation in
                violation.guarantee + " " + violation.description.filter { !$0.isNumber }.prefix(24)
            })
    }

    /// The draw with as much as possible plain that still breaks one of the same guarantees; itself where it
    /// breaks none. Goes over the traits again and again until none can be given up or made smaller.
    /// `progress` hears of each smaller draw.
    public func shrunk(
        _ progress: (SwarmDraw) -> Void, by broken: (Options) -> Set<String> = SwarmDraw.broken
    ) -> SwarmDraw {
        let wanted = broken(options)
        guard !wanted.isEmpty else { return self }
        var draw = self
        var isSmaller = true
        while isSmaller {
            isSmaller = false
            for place in draw.traits.indices {
                for value in draw.smaller(place) {
                    let candidate = draw.with(place, value)
                    guard !broken(candidate.options).isDisjoint(with: wanted) else { continue }
                    draw = candidate
                    isSmaller = true
                    progress(draw)
                    break
                }
            }
        }
        return draw
    }

    /// Values of a trait that would make a smaller draw, the smallest first: plain ones, and of what sizes a
    /// run less of it.
    private func smaller(_ place: Int) -> [UInt64] {
        let trait = traits[place]
        switch trait.name {
        case "nodes", "partitions", "loops", "devices", "topics", "seconds", "burst-size":
            return [1, trait.value / 2, trait.value - min(trait.value, 1)].filter {
                $0 > 0 && $0 < trait.value
            }
        default: return trait.isPlain ? [] : [trait.plain]
        }
    }
}
