"""How scalars of the draws are named in sentences."""

from bayesfair._draws import in_words


def test_the_rank_of_a_size_does_not_read_as_the_number_of_a_cluster():
    assert in_words("distance_to_reference") == "distance to reference"
    assert in_words("cluster_size_1") == "size of the largest cluster"
    ranks = 2, 3, 4, 11, 12, 13, 21, 102, 112
    endings = [in_words(f"cluster_size_{rank}").split()[3] for rank in ranks]
    assert endings == ["2nd", "3rd", "4th", "11th", "12th", "13th", "21st", "102nd", "112th"]
