#!/bin/bash
#SBATCH --job-name=generator
for n in 1 2 3; do
    cat > "run_$n.sh" <<EOF
#!/bin/bash
#SBATCH --job-name=part-$n
./part $n
EOF
done
